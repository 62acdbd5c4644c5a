// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 5, Geo-Coordinates (RFC 8060 s.4.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 5    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|N|     Latitude Degrees        |    Minutes    |    Seconds    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|E|     Longitude Degrees       |    Minutes    |    Seconds    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Altitude                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// draft-farinacci-lisp-geo gives the same type another layout: lcaf_geo_point.go.

import (
	"encoding/binary"
	"fmt"
)

// GeoLCAF gives the place of an address in degrees, minutes and seconds.
type GeoLCAF struct {
	North, East    bool
	Latitude       Degrees // to 90
	Longitude      Degrees // to 180
	AltitudeMeters int32   // NoAltitude when unknown
	Address        Address
}

// Degrees is an unsigned angle.
type Degrees struct {
	Degrees          uint16
	Minutes, Seconds uint8
}

// NoAltitude says that the altitude is not known.
const NoAltitude = 0x7fffffff

const (
	geoDirection = 0x8000
	// Where the address stands in the two layouts' bodies.
	geoAddressAt      = 12
	geoPointAddressAt = 20
)

// LCAFType is LCAFGeo.
func (GeoLCAF) LCAFType() LCAFType { return LCAFGeo }

// AFI is AFILCAF.
func (GeoLCAF) AFI() AFI { return AFILCAF }

// String shows the place after the address.
func (a GeoLCAF) String() string {
	return fmt.Sprintf("%s(geo %s %s)", show(a.Address), a.Latitude.text(a.North, "N", "S"), a.Longitude.text(a.East, "E", "W"))
}

func (d Degrees) text(positive bool, yes, no string) string {
	direction := no
	if positive {
		direction = yes
	}
	return fmt.Sprintf("%d-%d-%d-%s", d.Degrees, d.Minutes, d.Seconds, direction)
}

func (d Degrees) valid(limit uint16) bool {
	return d.Minutes < 60 && d.Seconds < 60 && (d.Degrees < limit || d.Degrees == limit && d.Minutes == 0 && d.Seconds == 0)
}

// parseGeo tells the two layouts of type 5 apart: the one whose address ends
// exactly with the body is the one that was sent; the RFC's wins when both fit.
// It measures instead of parsing twice, which nesting would multiply.
func parseGeo(r *reader) Address {
	if !r.addressFills(r.at+geoAddressAt) && r.addressFills(r.at+geoPointAddressAt) {
		return parseGeoPoint(r)
	}
	return parseGeoDegrees(r)
}

func parseGeoDegrees(r *reader) Address {
	start := r.at
	var a GeoLCAF
	a.Latitude, a.North = parseDegrees(r, "latitude")
	a.Longitude, a.East = parseDegrees(r, "longitude")
	a.AltitudeMeters = int32(r.u32("altitude"))
	a.Address = r.address("Geo address")
	if !r.failed() && !(a.Latitude.valid(90) && a.Longitude.valid(180)) {
		r.failAt(start, "geo-coordinates", ReasonBadValue, a.String())
	}
	return a
}

func parseDegrees(r *reader, field string) (Degrees, bool) {
	word := r.u16(field)
	d := Degrees{Degrees: word &^ geoDirection, Minutes: r.u8(field), Seconds: r.u8(field)}
	return d, word&geoDirection != 0
}

func (a GeoLCAF) appendTo(b []byte) ([]byte, error) {
	if !a.Latitude.valid(90) || !a.Longitude.valid(180) {
		return b, fmt.Errorf("geo-coordinates %s out of range", a)
	}
	b, at := beginLCAF(b, LCAFGeo, 0)
	b = binary.BigEndian.AppendUint16(b, a.Latitude.Degrees|bit16(a.North, geoDirection))
	b = append(b, a.Latitude.Minutes, a.Latitude.Seconds)
	b = binary.BigEndian.AppendUint16(b, a.Longitude.Degrees|bit16(a.East, geoDirection))
	b = append(b, a.Longitude.Minutes, a.Longitude.Seconds)
	return endLCAFWith(binary.BigEndian.AppendUint32(b, uint32(a.AltitudeMeters)), at, a.Address)
}
