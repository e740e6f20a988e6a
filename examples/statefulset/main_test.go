package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestOrders uses a clock that the test moves.
func TestOrders(t *testing.T) {
	clock := snowflaketest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ids, err := snowflake.New(clock.Node(7), options()...)
	if err != nil {
		t.Fatal(err)
	}
	h := routes(ids)
	var made order
	if w := ask(h, "POST", "/orders"); w.Code != http.StatusCreated || json.Unmarshal(w.Body.Bytes(), &made) != nil || made.ID >= 1<<53 {
		t.Fatal(w.Code, w.Body)
	}
	want := fmt.Sprintf(`{"id":%d,"shard":%d,"made":"2026-01-02T03:04:05Z"}`, made.ID, made.Shard)
	if w := ask(h, "GET", fmt.Sprint("/orders/", made.ID)); strings.TrimSpace(w.Body.String()) != want {
		t.Error(w.Code, w.Body)
	}
	if w := ask(h, "GET", "/orders/seven"); w.Code != http.StatusBadRequest {
		t.Error(w.Code, w.Body)
	}
	clock.Advance(10 * time.Millisecond)
	clock.Step(-10 * time.Second)
	if w := ask(h, "POST", "/orders"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Error(w.Code, w.Header(), w.Body)
	}
	if w := ask(h, "GET", "/stats"); !strings.HasPrefix(w.Body.String(), "1 IDs made, 1 calls refused, 1 steps of the clock, IDs are 0s ahead") {
		t.Error(w.Body)
	}
}

func TestGenerator(t *testing.T) {
	ids, err := generator(63)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := ids.Next(); err != nil || snowflake.JS53().Decompose(id).Node != 63 {
		t.Error(id, err)
	}
	if _, err := generator(64); err == nil {
		t.Error("ordinal 64 was accepted with six node bits")
	}
}
