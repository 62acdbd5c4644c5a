// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// What is parsed into a room that others were in before is what is parsed into new memory, in whatever order they come.
func TestRoomIsUsedAgain(t *testing.T) {
	var messages [][]byte
	for _, c := range goldenMessages(t) {
		messages = append(messages, unhex(t, c.hex))
	}
	for _, file := range []string{"opendaylight.json", "pylisp.json"} {
		for _, v := range readVectors(t, file) {
			messages = append(messages, v.octets(t))
		}
	}
	several := MapReply{Nonce: 1}
	for i := range 5 {
		r := goldenRecord()
		r.TTLMinutes, r.Locators[0].Weight = uint32(i), uint8(i)
		several.Records = append(several.Records, r)
	}
	b, err := several.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	messages = append(messages, b, b[:len(b)-3])
	random := rand.New(rand.NewPCG(3, 3))
	var room Room
	for range 20 * len(messages) {
		b := messages[random.IntN(len(messages))]
		want, wantErr := deployed.Parse(b)
		got, err := deployed.ParseIn(&room, b)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%x\n is %+v, %v in a room,\n %+v, %v in new memory", b, got, err, want, wantErr)
		}
	}
}

// An ECM stays as it is while its inner message is parsed into the same room.
func TestRoomHasTheECMAndItsMessage(t *testing.T) {
	inner := goldenInner(t)
	b, err := AppendECM(nil, inner.Source, inner.Destination, inner.Message)
	if err != nil {
		t.Fatal(err)
	}
	var room Room
	outer, err := Parser{}.ParseIn(&room, b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = (Parser{}).ParseIn(&room, outer.(*EncapsulatedControlMessage).Inner.Message); err != nil {
		t.Fatal(err)
	}
	if want, _ := Parse(b); !reflect.DeepEqual(outer, want) {
		t.Errorf("the ECM is %+v now, it was %+v", outer, want)
	}
}
