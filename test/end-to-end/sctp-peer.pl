# SCTP by hand, for kernels without it: sends or answers the first packet of an association over a raw socket.
#   sctp-peer.pl listen ADDRESS PORT              prints `ready`; answers every INIT with an INIT ACK that names who answered and whom it saw
#   sctp-peer.pl ask FROM ADDRESS PORT SECONDS    prints what the INIT ACK says, or the error
use strict;
use warnings;
use Socket qw(AF_INET AF_INET6 SOCK_RAW inet_pton inet_ntop pack_sockaddr_in pack_sockaddr_in6 unpack_sockaddr_in unpack_sockaddr_in6);
use Errno qw(ECONNREFUSED);

my $SCTP = 132;
my ($INIT, $INIT_ACK) = (1, 2);
my $TAG = 0x12345678;
$| = 1;

sub family { return $_[0] =~ /:/ ? AF_INET6 : AF_INET }

sub place {
  my ($address) = @_;
  my $packed = inet_pton(family($address), $address);
  return family($address) == AF_INET ? pack_sockaddr_in(0, $packed) : pack_sockaddr_in6(0, $packed);
}

sub source {
  my ($place, $family) = @_;
  my (undef, $address) = $family == AF_INET ? unpack_sockaddr_in($place) : unpack_sockaddr_in6($place);
  return inet_ntop($family, $address);
}

# RFC 9260, appendix A: CRC32c.
sub checksum {
  my $crc = 0xffffffff;
  for my $byte (unpack 'C*', $_[0]) {
    $crc ^= $byte;
    $crc = $crc & 1 ? ($crc >> 1) ^ 0x82f63b78 : $crc >> 1 for 1 .. 8;
  }
  return $crc ^ 0xffffffff;
}

# An INIT or INIT ACK. The text travels in a parameter that hosts skip.
sub packet {
  my ($from_port, $to_port, $tag, $chunk, $text) = @_;
  my $parameter = pack('nn', 0x8042, 4 + length $text) . $text;
  $parameter .= "\0" x (-length($parameter) % 4);
  my $value = pack('NNnnN', $TAG, 65536, 1, 1, 1) . $parameter;
  my $body = pack('CCn', $chunk, 0, 4 + length $value) . $value;
  my $head = pack('nnN', $from_port, $to_port, $tag);
  return $head . pack('V', checksum($head . pack('V', 0) . $body)) . $body;
}

# What arrived, without the IP header, which raw IPv4 sockets show.
sub payload {
  my ($data, $family) = @_;
  return $family == AF_INET ? substr($data, 4 * (ord($data) & 15)) : $data;
}

sub opened {
  my ($address) = @_;
  socket(my $socket, family($address), SOCK_RAW, $SCTP) or die "socket: $!\n";
  bind($socket, place($address)) or die "bind: $!\n";
  return $socket;
}

sub listen_at {
  my ($address, $port) = @_;
  my $family = family($address);
  my $socket = opened($address);
  print "ready\n";
  while (my $from = recv($socket, my $data, 65535, 0)) {
    my ($from_port, $to_port, $tag, undef, $chunk) = unpack 'nnNNC', payload($data, $family);
    next if $to_port != $port || $chunk != $INIT;
    my $server = $family == AF_INET ? "$address:$port" : "[$address]:$port";
    my $text = sprintf '{"server":"%s","client":"%s"}', $server, source($from, $family);
    send($socket, packet($port, $from_port, $TAG, $INIT_ACK, $text), 0, $from);
  }
}

sub ask {
  my ($own, $address, $port, $seconds) = @_;
  my $socket = opened($own);
  # Connected, so that the socket is told when the packet is refused.
  connect($socket, place($address)) or die "connect: $!\n";
  my $own_port = 20000 + $$ % 20000;
  my $said = sub { print "$_[0]\n"; exit 0 };
  local $SIG{ALRM} = sub { $said->('{"error":"TIMEOUT"}') };
  alarm $seconds;
  send($socket, packet($own_port, $port, 0, $INIT, ''), 0) or die "send: $!\n";
  while (1) {
    if (!defined recv($socket, my $data, 65535, 0)) {
      $said->($! == ECONNREFUSED ? '{"error":"ECONNREFUSED"}' : qq({"error":"$!"}));
    } else {
      my $body = payload($data, family($address));
      my ($from_port, $to_port, undef, undef, $chunk) = unpack 'nnNNC', $body;
      next if $from_port != $port || $to_port != $own_port || $chunk != $INIT_ACK;
      my (undef, $length) = unpack 'nn', substr($body, 32);
      $said->(substr $body, 36, $length - 4);
    }
  }
}

my ($do, @arguments) = @ARGV;
$do eq 'listen' ? listen_at(@arguments) : ask(@arguments);
