import assert from 'node:assert/strict';
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { type Address, cidrContains, hostCidr, parseAddress, parseCidr, specialUse } from '../../shared/address.ts';

function address(text: string): Address {
  const parsed = parseAddress(text);
  assert.ok(parsed !== null, `not an address: ${text}`);
  return parsed;
}

const ipv6Text = fc
  .tuple(fc.array(fc.oneof(fc.constant(0), fc.nat(0xffff)), { minLength: 8, maxLength: 8 }), fc.boolean(), fc.nat(3))
  .map(([words, upper, pad]) => {
    const text = words.map((word) => word.toString(16).padStart(pad, '0')).join(':');
    return upper ? text.toUpperCase() : text;
  });
const anyAddress = fc.oneof(fc.ipV4(), fc.ipV6(), ipv6Text);

/** What WHATWG's parser makes of an IPv6 address: RFC 5952 but for mapped addresses, which it writes in hex. */
function urlForm(text: string): string {
  return new URL(`http://[${text}]/`).hostname.slice(1, -1);
}

describe('addresses', () => {
  const table: readonly (readonly [string, string])[] = [
    ['10.0.0.1', '10.0.0.1'],
    ['172.30.0.041', '172.30.0.41'],
    ['010.000.0000.08', '10.0.0.8'],
    ['255.255.255.255', '255.255.255.255'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['0:0:0:0:0:0:0:0', '::'],
    ['2001:DB8::A', '2001:db8::a'],
    ['2001:0db8:0000:0000:0001:0000:0000:0001', '2001:db8::1:0:0:1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::ffff:10.0.0.1', '::ffff:10.0.0.1'],
    ['::FFFF:a00:1', '::ffff:10.0.0.1'],
    ['64:ff9b::10.0.0.1', '64:ff9b::a00:1'],
    ['1:2:3:4:5:6:1.2.3.04', '1:2:3:4:5:6:102:304'],
  ];
  for (const [text, canonical] of table) {
    test(`${text} is ${canonical}`, () => {
      assert.deepEqual(parseAddress(text), { family: canonical.includes(':') ? 'IPv6' : 'IPv4', text: canonical });
    });
  }

  const bad = [
    '',
    ' ',
    '1',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.',
    '.1.2.3',
    '1..2.3',
    '1.2.3.256',
    '1.2.3.-4',
    '1.2.3.+4',
    '0x1.2.3.4',
    '1.2.3.4 ',
    ' 1.2.3.4',
    '1.2.3.4\n',
    '1.2.3.4:80',
    '1.2.3.4/32',
    '١.2.3.4',
    'localhost',
    ':',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7:8::',
    '::1:2:3:4:5:6:7:8',
    '12345::',
    'g::',
    '::1%eth0',
    '[::1]',
    '1.2.3.4::',
    '::1.2.3',
    '::1.2.3.4:5',
    '1:2:3:4:5:6:7:1.2.3.4',
    '::ffff:1.2.3.256',
    ':1::',
    '1:',
    `${'0'.repeat(80)}1.2.3.4`,
    '1.2.3.4\0',
  ];
  for (const text of bad) test(`${JSON.stringify(text)} is no address`, () => assert.equal(parseAddress(text), null));

  test('every address is read, written as its family writes it, and reads back as itself', () => {
    fc.assert(
      fc.property(anyAddress, (text) => {
        const parsed = address(text);
        assert.equal(isIP(parsed.text), parsed.family === 'IPv4' ? 4 : 6);
        assert.deepEqual(parseAddress(parsed.text), parsed);
        if (parsed.family === 'IPv6') assert.equal(urlForm(parsed.text), urlForm(text));
        if (parsed.family === 'IPv6' && !parsed.text.includes('.')) assert.equal(parsed.text, urlForm(text));
      }),
      { numRuns: 2_000 },
    );
  });

  test('two spellings of an address are one, two addresses are two', () => {
    fc.assert(fc.property(ipv6Text, ipv6Text, (a, b) => assert.equal(address(a).text === address(b).text, urlForm(a) === urlForm(b))));
  });

  test('whatever is read is an address to Node too, leading zeros aside', () => {
    const unit = fc.constantFrom('0', '1', '9', '25', 'a', 'F', ':', '::', '.', '/', '%', ' ', '-', 'x', '\n');
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 20 }), (text) => {
        const parsed = parseAddress(text);
        const plain = text.replace(/(^|[.:])0+(?=\d+(\.|$))/g, '$1');
        assert.equal(parsed === null, !isIPv4(plain) && !(isIPv6(plain) && !plain.includes('%')), text);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe('CIDRs', () => {
  const table: readonly (readonly [string, string])[] = [
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['10.1.2.3/32', '10.1.2.3/32'],
    ['010.01.0.0/016', '10.1.0.0/16'],
    ['1.2.3.4/0', '0.0.0.0/0'],
    ['255.255.255.255/1', '128.0.0.0/1'],
    ['172.16.255.1/20', '172.16.240.0/20'],
    ['FD00:1:2::3/48', 'fd00:1:2::/48'],
    ['fd00::1/128', 'fd00::1/128'],
    ['fd00::ffff/121', 'fd00::ff80/121'],
    ['::/0', '::/0'],
    ['::ffff:10.1.2.3/104', '::ffff:10.0.0.0/104'],
  ];
  for (const [text, canonical] of table) {
    test(`${text} is ${canonical}`, () => {
      const cut = canonical.indexOf('/');
      assert.deepEqual(parseCidr(text), {
        family: canonical.includes(':') ? 'IPv6' : 'IPv4',
        text: canonical,
        address: canonical.slice(0, cut),
        prefix: Number(canonical.slice(cut + 1)),
      });
    });
  }

  const bad = [
    '',
    '/',
    '10.0.0.0',
    '10.0.0.0/',
    '/8',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.0/ 8',
    ' 10.0.0.0/8',
    '10.0.0/8',
    '10.0.0.0/8.0',
    '10.0.0.0/1e1',
    '10.0.0.0/0x8',
    '10.0.0.0/8\n',
    '10.0.0.0/255.0.0.0',
    '::1%lo/64',
  ];
  for (const text of bad) test(`${JSON.stringify(text)} is no CIDR`, () => assert.equal(parseCidr(text), null));

  test('a CIDR reads back as itself, holds its own address, and holds what BlockList says', () => {
    fc.assert(
      fc.property(anyAddress, anyAddress, fc.nat(128), (network, other, length) => {
        const own = address(network);
        const width = own.family === 'IPv4' ? 32 : 128;
        const prefix = length % (width + 1);
        const cidr = parseCidr(`${network}/${prefix}`);
        assert.ok(cidr !== null);
        assert.deepEqual(parseCidr(cidr.text), cidr);
        assert.ok(cidrContains(cidr, own));
        const candidate = address(other);
        const list = new BlockList();
        list.addSubnet(cidr.address, cidr.prefix, cidr.family === 'IPv4' ? 'ipv4' : 'ipv6');
        const same = candidate.family === cidr.family;
        assert.equal(cidrContains(cidr, candidate), same && list.check(candidate.text, cidr.family === 'IPv4' ? 'ipv4' : 'ipv6'));
      }),
      { numRuns: 2_000 },
    );
  });

  test('the CIDR of one host holds that host and no neighbour', () => {
    const host = hostCidr(address('10.0.0.1'));
    assert.deepEqual(host, parseCidr('10.0.0.1/32'));
    assert.ok(cidrContains(host, address('10.0.0.1')));
    assert.ok(!cidrContains(host, address('10.0.0.0')));
    assert.deepEqual(hostCidr(address('fd00::1')), parseCidr('fd00::1/128'));
  });

  test('families never mix', () => {
    const everything = parseCidr('0.0.0.0/0');
    assert.ok(everything !== null);
    assert.ok(!cidrContains(everything, address('::1')));
    assert.ok(!cidrContains(everything, address('::ffff:10.0.0.1')));
  });
});

describe('addresses that no pod can have', () => {
  const table: readonly (readonly [string, ReturnType<typeof specialUse>])[] = [
    ['0.0.0.0', 'unspecified'],
    ['::', 'unspecified'],
    ['::ffff:0.0.0.0', 'unspecified'],
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::7f00:1', 'loopback'],
    ['64:ff9b::127.0.0.1', 'loopback'],
    ['169.254.0.1', 'link-local'],
    ['fe80::1', 'link-local'],
    ['febf:ffff::1', 'link-local'],
    ['::ffff:169.254.1.1', 'link-local'],
    ['169.254.169.254', 'cloud-metadata'],
    ['169.254.169.0254', 'cloud-metadata'],
    ['::ffff:169.254.169.254', 'cloud-metadata'],
    ['::ffff:a9fe:a9fe', 'cloud-metadata'],
    ['fd00:ec2::254', 'cloud-metadata'],
    ['FD00:0EC2:0::0254', 'cloud-metadata'],
    ['fd20:ce::254', 'cloud-metadata'],
    ['168.63.129.16', 'cloud-metadata'],
    ['100.100.100.200', 'cloud-metadata'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['ff02::1', 'multicast'],
    ['::ffff:224.0.0.1', 'multicast'],
    ['255.255.255.255', 'broadcast'],
    ['10.0.0.1', null],
    ['126.255.255.255', null],
    ['128.0.0.1', null],
    ['169.253.255.255', null],
    ['169.255.0.0', null],
    ['223.255.255.255', null],
    ['240.0.0.1', null],
    ['fd00::1', null],
    ['fec0::1', null],
    ['fe7f::1', null],
    ['2001:db8::7f00:1', null],
    ['::ffff:10.0.0.1', null],
    ['64:ff9b::10.0.0.1', null],
  ];
  for (const [text, use] of table) test(`${text}: ${use ?? 'ordinary'}`, () => assert.equal(specialUse(address(text)), use));
});
