package lease

// For the tests of outages, which stand outside of the package.
var (
	Remembered  = remembered
	Certificate = certificate
)
