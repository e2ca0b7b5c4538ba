import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { after, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { recallCertificate } from '../../../functions/router/certificate-memo.ts';
import { type KeyPair, isFlaw, isPemComment, parseAuthorities, parseCertificate } from '../../../functions/router/certificates.ts';
import { digestOf } from '../../../shared/digest.ts';
import { Authority, missing } from './openssl.ts';

const skip = missing('openssl', 'version');
const openssl = new Authority();
after(() => openssl.remove());

const P256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];

function accepted(pem: string, key = '', chain = ''): KeyPair {
  const judged = parseCertificate(pem, key, chain);
  return isFlaw(judged) ? assert.fail(`${judged.part} ${judged.flaw}`) : judged;
}

function refused(pem: string, key = '', chain = ''): string {
  const judged = parseCertificate(pem, key, chain);
  return isFlaw(judged) ? `${judged.part} ${judged.flaw}` : assert.fail('accepted');
}

/** BEGIN lines without their dashes. */
function labels(pem: string): string[] {
  return [...pem.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map(([, label = '']) => label);
}

/** Whether HAProxy starts with the certificate. */
function haproxyLoads(pem: string): boolean {
  writeFileSync(openssl.path('loaded.pem'), pem);
  const bind = `bind unix@${openssl.path('unused.sock')} ssl crt ${openssl.path('loaded.pem')}`;
  const timeouts = 'timeout client 1s\n timeout server 1s\n timeout connect 1s';
  writeFileSync(openssl.path('h.cfg'), `defaults\n mode http\n ${timeouts}\nfrontend f\n ${bind}\n`);
  try {
    execFileSync('haproxy', ['-c', '-f', openssl.path('h.cfg')], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

describe('kinds of certificates', { skip }, () => {
  const table: readonly (readonly [string, () => { readonly crt: string; readonly key: string }, boolean])[] = [
    ['RSA 2048', () => openssl.selfSigned('-newkey', 'rsa:2048'), true],
    ['RSA 1024', () => openssl.selfSigned('-newkey', 'rsa:1024'), false],
    ['ECDSA P-256', () => openssl.selfSigned(...P256), true],
    ['ECDSA P-384', () => openssl.selfSigned('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:secp384r1'), true],
    ['ECDSA P-192', () => openssl.selfSigned('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime192v1'), false],
    ['Ed25519', () => openssl.selfSigned('-newkey', 'ed25519'), true],
    ['SHA-1, self-signed', () => openssl.selfSigned('-newkey', 'rsa:2048', '-sha1'), true],
    ['SHA-1, self-signed, with a key usage that signs nothing', selfSignedLeaf, false],
    ['SHA-256, signed by a CA', () => openssl.signed('-sha256'), true],
    ['SHA-1, signed by a CA', () => openssl.signed('-sha1'), false],
    ['MD5, signed by a CA', () => openssl.signed('-md5'), false],
    ['RSASSA-PSS with SHA-256, signed by a CA', () => openssl.signed('-sha256', '-sigopt', 'rsa_padding_mode:pss'), true],
    ['RSASSA-PSS with SHA-1, signed by a CA', () => openssl.signed('-sha1', '-sigopt', 'rsa_padding_mode:pss'), false],
    ['expired', () => openssl.signed('-sha256', '-days', '-1'), true],
  ];
  const noHaproxy = missing('haproxy', '-v');
  for (const [name, make, good] of table) {
    test(`${name}: ${good ? 'accepted' : 'refused'}`, () => {
      const { crt, key } = make();
      if (!good) return assert.match(refused(crt, key), /^certificate (has a key other|is signed with)/);
      const { pem, fingerprint } = accepted(crt, key);
      assert.equal(fingerprint, digestOf(new X509Certificate(crt).raw));
      assert.equal(fingerprint, new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase());
      assert.ok(new X509Certificate(pem).checkPrivateKey(createPrivateKey(pem)));
      if (noHaproxy === false) assert.ok(haproxyLoads(pem), 'HAProxy refuses it');
    });
  }

  /** OpenSSL's own test for self-signed looks at the key usage as well; we follow it and refuse a little more than it would. */
  function selfSignedLeaf() {
    return openssl.selfSigned('-newkey', 'rsa:2048', '-sha1', '-addext', 'keyUsage=digitalSignature');
  }

  test('a weak certificate in the chain counts too', () => {
    const leaf = openssl.signed('-sha256');
    assert.match(refused(leaf.crt, leaf.key, openssl.signed('-sha1').crt), /^chain is signed with/);
    assert.match(refused(leaf.crt + openssl.signed('-md5').crt, leaf.key), /^certificate is signed with/);
    assert.equal(labels(accepted(leaf.crt, leaf.key, openssl.selfSigned('-newkey', 'rsa:2048', '-sha1').crt).pem).length, 3);
  });
});

describe('PEM as people paste it', { skip }, () => {
  const pair = skip === false ? openssl.selfSigned('-newkey', 'rsa:2048') : { crt: '', key: '' };
  const clean = skip === false ? accepted(pair.crt, pair.key) : { pem: '', fingerprint: '' };

  test('comes out clean: certificates, then the key, and no blank line', () => {
    assert.deepEqual(labels(clean.pem), ['CERTIFICATE', 'PRIVATE KEY']);
    assert.match(clean.pem, /^(-----(BEGIN|END) [A-Z ]+-----\n|[A-Za-z0-9+/=]{1,64}\n)+$/);
  });

  test('gives the same bytes whatever surrounds it', () => {
    const indented = (text: string) => text.replaceAll('\n', '\n\n   ');
    assert.deepEqual(accepted(`\n\n# mine\nsubject=x\n${indented(pair.crt)}\n\n`, indented(pair.key)), clean);
    assert.deepEqual(accepted(pair.crt.replaceAll('\n', '\r\n'), pair.key.replaceAll('\n', '\r\n')), clean);
  });

  test('may bundle the key, before or after the certificate', () => {
    assert.deepEqual(accepted(pair.crt + pair.key), clean);
    assert.deepEqual(accepted(pair.key + pair.crt, '\n'), clean);
  });

  test('a key of its own goes before a bundled one', () => {
    const other = openssl.selfSigned(...P256);
    assert.deepEqual(accepted(pair.crt + other.key, pair.key), clean);
  });

  test('EC PARAMETERS are dropped, old kinds of keys are converted', () => {
    const ec = openssl.selfSigned(...P256);
    const parameters = openssl.convert('', 'ecparam', '-name', 'prime256v1');
    const sec1 = openssl.convert(ec.key, 'ec', '-param_out') + openssl.convert(ec.key, 'ec');
    assert.deepEqual(labels(parameters + sec1), ['EC PARAMETERS', 'EC PARAMETERS', 'EC PRIVATE KEY']);
    assert.deepEqual(accepted(parameters + ec.crt, parameters + openssl.convert(ec.key, 'ec')), accepted(ec.crt, ec.key));
    const pkcs1 = openssl.convert(pair.key, 'rsa', '-traditional');
    assert.deepEqual(labels(pkcs1), ['RSA PRIVATE KEY']);
    assert.deepEqual(accepted(pair.crt, pkcs1), clean);
  });

  test('the chain follows the leaf, each certificate once', () => {
    const leaf = openssl.signed('-sha256');
    const ca = openssl.authority();
    const chained = accepted(leaf.crt, leaf.key, ca);
    assert.deepEqual(labels(chained.pem), ['CERTIFICATE', 'CERTIFICATE', 'PRIVATE KEY']);
    assert.deepEqual(accepted(leaf.crt + ca + ca, leaf.key, leaf.crt + ca), chained);
    assert.equal(chained.fingerprint, accepted(leaf.crt, leaf.key).fingerprint);
  });
});

describe('what is refused', { skip }, () => {
  const pair = skip === false ? openssl.selfSigned(...P256) : { crt: '', key: '' };

  test('a key of another certificate', () => {
    assert.equal(refused(pair.crt, openssl.selfSigned(...P256).key), 'key is not the key of the certificate');
    assert.equal(refused(pair.crt, openssl.selfSigned('-newkey', 'rsa:2048').key), 'key is not the key of the certificate');
  });

  test('no key', () => {
    assert.match(refused(pair.crt), /^key is missing/);
    assert.match(refused(pair.crt, pair.crt), /^key is missing/);
    assert.match(refused(pair.crt, 'not PEM'), /^key is missing/);
  });

  test('an encrypted key, old and new', () => {
    const pkcs8 = openssl.convert(pair.key, 'pkcs8', '-topk8', '-passout', 'pass:secret');
    const old = openssl.convert(pair.key, 'ec', '-aes256', '-passout', 'pass:secret');
    assert.match(old, /Proc-Type/);
    assert.match(refused(pair.crt, pkcs8), /^key is encrypted/);
    assert.match(refused(pair.crt, old), /^key is encrypted/);
  });

  test('no certificate, or one that does not parse', () => {
    assert.match(refused('', pair.key), /^certificate holds no certificate/);
    assert.match(refused(pair.key), /^certificate holds no certificate/);
    assert.match(
      refused('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----', pair.key),
      /^certificate holds a certificate that/,
    );
    assert.match(refused(pair.crt.replace(/-----END[^]*/, ''), pair.key), /^certificate is not PEM/);
    assert.match(refused(pair.crt.replace('M', '!'), pair.key), /^certificate is not PEM/);
    assert.match(refused(pair.crt, pair.key, '-----BEGIN CERTIFICATE-----'), /^chain is not PEM/);
    assert.match(refused(pair.crt, '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----'), /^key does not parse/);
  });

  test('texts without an end, in time', () => {
    assert.match(refused('-----BEGIN CERTIFICATE-----\n'.repeat(4_000), pair.key), /^certificate is not PEM/);
    assert.match(refused('-----BEGIN CERTIFICATE-----\n'.repeat(100_000), pair.key), /^certificate is longer/);
  });

  test('no flaw quotes what it is about', () => {
    const texts = [pair.crt, pair.key, pair.crt.slice(0, 200), pair.key.replace('M', 'N'), 'kubeadmin-password', `${pair.crt}${pair.key}`];
    fc.assert(
      fc.property(fc.constantFrom(...texts), fc.constantFrom(...texts), fc.constantFrom(...texts), fc.nat(400), (crt, key, chain, cut) => {
        const judged = parseCertificate(crt, key.slice(0, cut), chain);
        if (!isFlaw(judged)) return;
        for (const line of [crt, key, chain]
          .join('\n')
          .split('\n')
          .filter((one) => one.length > 5))
          assert.ok(!judged.flaw.includes(line));
      }),
    );
  });
});

describe('authorities', { skip }, () => {
  test('come out clean and once', () => {
    const ca = openssl.authority();
    const weak = openssl.selfSigned('-newkey', 'rsa:1024', '-sha1').crt;
    assert.equal(parseAuthorities(`# mine\n\n${ca}\n\n${weak}${ca}`), ca + weak);
  });

  test('must be certificates', () => {
    const { key } = openssl.selfSigned(...P256);
    for (const text of ['', 'x', key, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'])
      assert.ok(isFlaw(parseAuthorities(text)));
  });

  test('a comment in PEM is no authority', () => {
    const comment = '-----BEGIN COMMENT-----\nThis is an empty PEM file.\n-----END COMMENT-----\n';
    assert.equal(isPemComment(comment), true);
    assert.equal(isPemComment(comment + openssl.authority()), false);
    assert.equal(isPemComment('text'), false);
  });
});

test('a remembered answer is the answer', { skip }, () => {
  const one = openssl.selfSigned(...P256);
  const two = openssl.selfSigned(...P256);
  for (let round = 0; round < 2; round++) {
    for (const [crt, key, chain] of [
      [one.crt, one.key, ''],
      [two.crt, two.key, one.crt],
      [one.crt, two.key, ''],
      [one.crt + one.key, '', ''],
      [one.crt, one.key, two.crt],
    ] as const) {
      assert.deepEqual(recallCertificate(crt, key, chain), parseCertificate(crt, key, chain));
    }
  }
});
