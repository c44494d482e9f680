// A sensor that publishes at a rate and goes where the controller places it, printing its counts once a second.
//
//	go run ./examples -controller 127.0.0.1:4180 -topic telemetry -id sensor-1 -rate 10 -seconds 30
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	srtm "srtm/clients/go"
)

func main() {
	controller := flag.String("controller", "127.0.0.1:4180", "HTTP address of the controller")
	topic := flag.String("topic", "telemetry", "where to publish")
	id := flag.String("id", "sensor-1", "unique within the topic")
	group := flag.String("group", "", "correlation group key")
	rate := flag.Float64("rate", 10, "messages per second")
	seconds := flag.Float64("seconds", 10, "how long")
	ca := flag.String("ca", "", "file with the authority of controller and brokers; with it, TLS is spoken")
	cert := flag.String("cert", "", "file with a certificate of its own")
	key := flag.String("key", "", "file with the key of that")
	flag.Parse()
	options := srtm.Options{Controller: *controller, Topic: *topic, ID: *id, Group: *group, Rate: *rate}
	if *ca != "" {
		config, err := encrypted(*ca, *cert, *key)
		if err != nil {
			log.Fatal(err)
		}
		options.TLS = config
	}
	if err := run(options, int(*rate**seconds)); err != nil {
		log.Fatal(err)
	}
}

// encrypted believes the authority in one file, and proves itself by what is in two others, if they are named.
func encrypted(ca, cert, key string) (*tls.Config, error) {
	authority, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	if cert != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

func run(options srtm.Options, messages int) error {
	publisher, err := srtm.Start(options)
	if err != nil {
		return err
	}
	ctx := context.Background()
	ticker := time.NewTicker(time.Duration(float64(time.Second) / options.Rate))
	defer ticker.Stop()
	reported := time.Now()
	for number := range messages {
		<-ticker.C
		if err := publisher.Publish(ctx, fmt.Appendf(nil, "%s %d", options.ID, number)); err != nil {
			return err
		}
		if time.Since(reported) >= time.Second {
			report(publisher)
			reported = time.Now()
		}
	}
	if err := publisher.Flush(ctx); err != nil {
		return err
	}
	report(publisher)
	return publisher.Close(ctx)
}

func report(publisher *srtm.Publisher) {
	broker := publisher.Broker()
	if broker == "" {
		broker = "none"
	}
	traffic := publisher.Traffic()
	fmt.Printf("broker %s published %d acknowledged %d resent %d refused %d moves %d throttled %d\n", broker,
		traffic.Published, traffic.Acknowledged, traffic.Resent, traffic.Refused, traffic.Moves,
		publisher.Throttled().RetryAfter.Microseconds())
}
