import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { RouteTls } from '../../../functions/cluster/objects.ts';
import { admitRoutes } from '../../../functions/router/admit.ts';
import { expiredCertificates } from '../../../functions/router/expired-certificates.ts';
import { cluster, options, route, tlsSecret } from './admission-fixtures.ts';
import { Authority, missing, type Pair } from './openssl.ts';

const skip = missing('openssl', 'version');
const DAY = 86_400_000;

const edge = (name: string, tls: Partial<RouteTls> = {}) => route({ meta: { name }, host: `${name}.test`, tls });

describe('certificates that have expired', { skip }, () => {
  let openssl: Authority;
  let pair: Pair;
  before(() => {
    openssl = new Authority();
    pair = openssl.selfSigned('-newkey', 'rsa:2048');
  });
  after(() => openssl.remove());

  test('are served and warned of by the field that they came from, once they have', () => {
    const state = cluster({
      routes: [
        edge('own', { certificate: pair.crt, key: pair.key }),
        edge('external', { externalCertificate: 'pair' }),
        edge('standard'),
        route({ meta: { name: 'plain' }, host: 'plain.test' }),
      ],
      secrets: [tlsSecret('pair', pair.crt, pair.key)],
    });
    const admission = admitRoutes(state, options());
    assert.equal(admission.configuration.routes.length, 4);
    assert.deepEqual(expiredCertificates(state.routes, admission, Date.now()), []);
    assert.deepEqual(
      expiredCertificates(state.routes, admission, Date.now() + 31 * DAY).map(({ name, scope, field, reason }) => [
        name,
        scope,
        field,
        reason,
      ]),
      [
        ['external', 'setting', 'spec.tls.externalCertificate', 'CertificateExpired'],
        ['own', 'setting', 'spec.tls.certificate', 'CertificateExpired'],
      ],
    );
  });
});
