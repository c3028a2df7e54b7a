package detector

func (d *Domain[K]) Save(b []byte, key func([]byte, K) []byte) []byte   { return b }
func (d *Domain[K]) Restore(b []byte, key func([]byte) (K, bool)) error { return nil }
