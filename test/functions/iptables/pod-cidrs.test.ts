import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { coveringCidrs } from '../../../functions/iptables/pod-cidrs.ts';
import { cidrContains, parseAddress, parseCidr, type Cidr } from '../../../shared/address.ts';

function covering(...texts: string[]): string[] {
  return coveringCidrs(texts.map(cidr));
}

function cidr(text: string): Cidr {
  const read = parseCidr(text);
  assert.ok(read !== null);
  return read;
}

test('halves join, again and again; what is inside another goes', () => {
  assert.deepEqual(covering('10.0.0.0/26', '10.0.0.64/26', '10.0.0.128/25', '10.0.2.0/24', '10.0.2.7/32'), ['10.0.0.0/24', '10.0.2.0/24']);
  assert.deepEqual(covering('10.0.1.0/24', '10.0.2.0/24'), ['10.0.1.0/24', '10.0.2.0/24'], 'neighbours that are no halves of one');
  assert.deepEqual(covering('0.0.0.0/1', '128.0.0.0/1', 'fd00::/64', 'fd00:0:0:1::/64'), ['0.0.0.0/0', 'fd00::/63']);
  assert.deepEqual(covering(), []);
});

test('exactly the same addresses are covered, by CIDRs of which no two could be one', () => {
  const small = fc.tuple(fc.nat(63), fc.integer({ min: 26, max: 32 })).map(([host, prefix]) => cidr(`10.0.0.${host}/${prefix}`));
  fc.assert(
    fc.property(fc.array(small, { maxLength: 20 }), (given) => {
      const result = coveringCidrs(given).map(cidr);
      for (let host = 0; host < 64; host++) {
        const address = parseAddress(`10.0.0.${host}`);
        assert.ok(address !== null);
        const holders = result.filter((each) => cidrContains(each, address)).length;
        assert.equal(holders, given.some((each) => cidrContains(each, address)) ? 1 : 0);
      }
      assert.deepEqual(
        coveringCidrs(result),
        result.map(({ text }) => text),
      );
    }),
  );
});
