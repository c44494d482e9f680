module srtm/clients/go

go 1.25
