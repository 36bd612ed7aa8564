/** Functions that read texts of users, strangers and services in linear time. */

import test from 'ava';
import { publicServiceUrl } from '#heat-bridge/openstack/service-catalog.ts';
import { readBatchSize } from '#master/jobs/index.ts';
import { answerUpgrade } from '#minion-protocol/websocket-handshake.ts';
import { trimEnd } from '#runtime';
import { directoryOf } from '#salt/render/paths.ts';

test('only the end of a text is trimmed', (t) => {
  t.is(trimEnd('a//b//', '/'), 'a//b');
  t.is(trimEnd('//', '/'), '');
  t.is(trimEnd('a', '/'), 'a');
  t.is(trimEnd('', '/'), '');
});

test('the size of a batch may have percent signs at both ends only', (t) => {
  t.is(readBatchSize('%%25%%'), '25%');
  t.is(readBatchSize('%25'), '25%');
  t.is(readBatchSize('2%5'), undefined);
});

const length = 200_000;
const slashes = '/'.repeat(length);
const catalog = (url: string): string =>
  JSON.stringify({
    token: { catalog: [{ type: 'messaging', endpoints: [{ interface: 'public', url }] }] },
  });

const reads: Readonly<Record<string, () => unknown>> = {
  'the size of a batch': () => readBatchSize(`x${'%'.repeat(length)}x`),
  'a header of a WebSocket handshake': () =>
    answerUpgrade(`GET / HTTP/1.1\r\nX: a${' '.repeat(length)}b`),
  'the directory of a path': () => directoryOf(`a${slashes}b/c`),
  'the URL of a service': () =>
    publicServiceUrl(catalog(`https://a${slashes}b`), 'messaging', null),
};

for (const [what, read] of Object.entries(reads)) {
  test(`${what} is read in linear time`, (t) => {
    // Processor time is measured, because it does not depend on other processes.
    const before = process.threadCpuUsage();
    read();
    const { user, system } = process.threadCpuUsage(before);
    // Quadratic time would be more than ten seconds.
    t.true(user + system < 1_000_000, `${user + system} µs`);
  });
}
