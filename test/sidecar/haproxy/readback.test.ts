import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseInfo, parseProcesses, parseServersState } from '../../../sidecar/haproxy/readback.ts';

test('show info', () => {
  const text = 'Name: HAProxy\nVersion: 2.6.12-1+deb12u4\nPid: 7983\nnode: vm\ndescription: abc\nStopping: 0\n\n';
  assert.deepEqual(parseInfo(text), { pid: 7983, description: 'abc', version: '2.6.12-1+deb12u4' });
  assert.equal(parseInfo('Pid: 1\nDescription: x\n')?.description, 'x');
  assert.equal(parseInfo('Unknown command'), null);
});

test('show proc, with failed reloads and old workers', () => {
  const head = '#<PID>          <type>          <reloads>       <uptime>        <version>\n';
  const workers = '# workers\n1271            worker          1               0d00h00m00s     2.6.12\n';
  const old = '# old workers\n1233            worker          3               0d00h00m43s     2.6.12\n1200   worker  4  1d  2.6.12\n';
  const text = `${head}1162            master          5 [failed: 2]   0d00h02m07s     2.6.12\n${workers}${old}# programs\n\n`;
  assert.deepEqual(parseProcesses(text), { pid: 1162, failedReloads: 2, oldWorkers: 2 });
  const first = `${head}1162            master          0               0d00h02m07s     2.4.22\n${workers}# programs\n`;
  assert.deepEqual(parseProcesses(first), { pid: 1162, failedReloads: 0, oldWorkers: 0 });
  assert.equal(parseProcesses(''), null);
});

test('show servers state, by the names of its columns', () => {
  const text = `1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_fqdn srv_port
4 be_http:ns:n 5 a 127.0.0.1 2 0 1 - 8080
4 be_http:ns:n 6 b fd00::1 0 1 256 - 1
`;
  assert.deepEqual(parseServersState(text), [
    { backend: 'be_http:ns:n', name: 'a', address: '127.0.0.1', port: 8080, weight: 1, maintenance: false },
    { backend: 'be_http:ns:n', name: 'b', address: 'fd00::1', port: 1, weight: 256, maintenance: true },
  ]);
});
