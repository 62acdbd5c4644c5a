// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 5 in the layout of draft-farinacci-lisp-geo-13 s.4:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 5    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|U|N|E|A|M|R|K|    Reserved     |     Location Uncertainty      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Lat Degrees  |        Latitude Milliseconds                  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Long Degrees |        Longitude Milliseconds                 |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Altitude                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|             Radius            |          Reserved             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// GeoPointLCAF gives a point, or with a radius a circle, around an address.
type GeoPointLCAF struct {
	UncertaintyPresent     bool // U
	North, East            bool // N, E
	AltitudePresent        bool // A
	AltitudeInMeters       bool // M: meters, else centimeters
	RadiusPresent          bool // R: a geo-prefix
	RadiusInKilometers     bool // K: kilometers, else meters
	UncertaintyCentimeters uint16
	LatitudeDegrees        uint8
	LatitudeMilliseconds   uint32 // 24 bits
	LongitudeDegrees       uint8
	LongitudeMilliseconds  uint32 // 24 bits
	Altitude               int32
	Radius                 uint16
	Address                Address
}

const (
	geoPointUncertainty = 0x8000
	geoPointNorth       = 0x4000
	geoPointEast        = 0x2000
	geoPointAltitude    = 0x1000
	geoPointMeters      = 0x0800
	geoPointRadius      = 0x0400
	geoPointKilometers  = 0x0200

	millisecondsPerDegree = 3600000
)

// LCAFType is LCAFGeo.
func (GeoPointLCAF) LCAFType() LCAFType { return LCAFGeo }

// AFI is AFILCAF.
func (GeoPointLCAF) AFI() AFI { return AFILCAF }

// String shows the place after the address.
func (a GeoPointLCAF) String() string {
	return fmt.Sprintf("%s(geo %s %s radius %d)", show(a.Address),
		a.degrees(a.LatitudeDegrees, a.LatitudeMilliseconds).text(a.North, "N", "S"),
		a.degrees(a.LongitudeDegrees, a.LongitudeMilliseconds).text(a.East, "E", "W"), a.Radius)
}

func (GeoPointLCAF) degrees(whole uint8, milliseconds uint32) Degrees {
	seconds := milliseconds / 1000
	return Degrees{Degrees: uint16(whole), Minutes: uint8(seconds / 60 % 60), Seconds: uint8(seconds % 60)}
}

func parseGeoPoint(r *reader) Address {
	start := r.at
	flags := r.u16("geo flags")
	a := GeoPointLCAF{
		UncertaintyPresent:     flags&geoPointUncertainty != 0,
		North:                  flags&geoPointNorth != 0,
		East:                   flags&geoPointEast != 0,
		AltitudePresent:        flags&geoPointAltitude != 0,
		AltitudeInMeters:       flags&geoPointMeters != 0,
		RadiusPresent:          flags&geoPointRadius != 0,
		RadiusInKilometers:     flags&geoPointKilometers != 0,
		UncertaintyCentimeters: r.u16("uncertainty"),
		LatitudeDegrees:        r.u8("latitude"),
		LatitudeMilliseconds:   r.u24("latitude"),
		LongitudeDegrees:       r.u8("longitude"),
		LongitudeMilliseconds:  r.u24("longitude"),
		Altitude:               int32(r.u32("altitude")),
		Radius:                 r.u16("radius"),
	}
	r.take(2, "reserved")
	a.Address = r.address("Geo address")
	if !r.failed() && !a.valid() {
		r.failAt(start, "geo-coordinates", ReasonBadValue, a.String())
	}
	return a
}

func (a GeoPointLCAF) valid() bool {
	return a.LatitudeDegrees <= 90 && a.LongitudeDegrees <= 180 &&
		a.LatitudeMilliseconds < millisecondsPerDegree && a.LongitudeMilliseconds < millisecondsPerDegree
}

func (a GeoPointLCAF) flags() uint16 {
	return bit16(a.UncertaintyPresent, geoPointUncertainty) | bit16(a.North, geoPointNorth) | bit16(a.East, geoPointEast) |
		bit16(a.AltitudePresent, geoPointAltitude) | bit16(a.AltitudeInMeters, geoPointMeters) |
		bit16(a.RadiusPresent, geoPointRadius) | bit16(a.RadiusInKilometers, geoPointKilometers)
}

func (a GeoPointLCAF) appendTo(b []byte) ([]byte, error) {
	if !a.valid() {
		return b, fmt.Errorf("geo-coordinates %s out of range", a)
	}
	b, at := beginLCAF(b, LCAFGeo, 0)
	b = binary.BigEndian.AppendUint16(b, a.flags())
	b = binary.BigEndian.AppendUint16(b, a.UncertaintyCentimeters)
	b = binary.BigEndian.AppendUint32(b, uint32(a.LatitudeDegrees)<<24|a.LatitudeMilliseconds)
	b = binary.BigEndian.AppendUint32(b, uint32(a.LongitudeDegrees)<<24|a.LongitudeMilliseconds)
	b = binary.BigEndian.AppendUint32(b, uint32(a.Altitude))
	b = binary.BigEndian.AppendUint32(b, uint32(a.Radius)<<16)
	return endLCAFWith(b, at, a.Address)
}
