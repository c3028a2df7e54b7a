package detector

import (
	"encoding/binary"
	"testing"
	"time"
)

const (
	savedMiB   = 1 << 20
	savedStart = 1_770_000_000 * time.Second
)

func savedDomain(t testing.TB) *Domain[int] {
	t.Helper()
	d, err := NewDomain(func(Subject[int]) Config { return DefaultConfig() })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func savedKeys(b []byte) (int, bool) {
	k, n := binary.Varint(b)
	return int(k), n > 0
}
