// Package outages tests agents that cannot reach the database, or find afterwards that their lease
// is over: outages of seconds to hours, node IDs that others took in the meantime, items that are
// broken, and requests that hang. A holder suspends in time and resumes or claims another node ID
// when it may.
package outages
