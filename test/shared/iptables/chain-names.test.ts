import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  CHAINS,
  DISPATCH_PREFIXES,
  endpointChain,
  isOwnChain,
  nodePortChain,
  portKey,
  serviceChain,
  serviceHash,
} from '../../../shared/iptables/chain-names.ts';

test('names of chains are the field’s', () => {
  const key = portKey('ns1', 'svc1', 'p80');
  assert.equal(key, 'ns1/svc1:p80');
  assert.equal(serviceChain('SVC', serviceHash(key, 'TCP')), 'KUBE-SVC-XPGD46QRK7WJZT7O');
  assert.equal(endpointChain(key, 'TCP', '10.180.0.1:80'), 'KUBE-SEP-SXIVWICOYRO3J4NJ');
});

test('an unnamed port has no colon', () => {
  assert.equal(portKey('ns1', 'svc1', ''), 'ns1/svc1');
});

test('every name is ours, and fits into 28 characters', () => {
  const text = fc.string({ maxLength: 63 });
  const protocol = fc.constantFrom('TCP' as const, 'UDP' as const, 'SCTP' as const);
  fc.assert(
    fc.property(text, protocol, fc.nat(65_535), (key, of, port) => {
      const hash = serviceHash(key, of);
      const kinds = ['SVC', 'SVL', 'EXT', 'FW'] as const;
      const names = [...kinds.map((kind) => serviceChain(kind, hash)), endpointChain(key, of, 'x:1'), nodePortChain(of, port)];
      for (const name of names) assert.ok(isOwnChain(name) && name.length <= 28, name);
    }),
  );
  const fixed = [...Object.values(CHAINS), ...Object.values(DISPATCH_PREFIXES).map((prefix) => `${prefix}0f`)];
  for (const name of fixed) assert.ok(isOwnChain(name) && name.length <= 28, name);
});

test('chains of others are not ours', () => {
  for (const name of [
    'INPUT',
    'KUBE-FIREWALL',
    'KUBE-KUBELET-CANARY',
    'KUBE-SVC-short',
    'KUBE-DISP-xyz',
    'xKUBE-SERVICES',
    'KUBE-SERVICES2',
  ]) {
    assert.equal(isOwnChain(name), false, name);
  }
});
