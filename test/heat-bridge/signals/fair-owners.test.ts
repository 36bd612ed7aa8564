/** Signals of one owner leave places and turns to those of others. */

import http from 'node:http';
import test from 'ava';
import { type FullQuota, OutboxQuotas } from '#heat-bridge/signals/outbox-quotas.ts';
import { parseSignalsOptions } from '#heat-bridge/signals/signals-options.ts';
import { until } from '../../helpers/deadline.ts';
import { openTestSignals } from './open-signals.ts';

const key = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;

test('owners of handles at one service take turns', async (t) => {
  const order: string[] = [];
  const waiting: http.ServerResponse[] = [];
  const server = http.createServer((request, response) => {
    request.resume();
    order.push(request.url ?? '');
    waiting.push(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${Object(server.address()).port}`;
  const signals = await openTestSignals(t, [url], { section: { timeout: 60 } });
  const add = (alias: string, minion: string, owner: string): Promise<unknown> =>
    signals.handles.add(
      { alias, minions: [minion], signal: { url: `${url}/${alias}`, key } },
      { owner },
    );
  for (let at = 0; at < 40; at += 1) await add(`a${at}`, 'ma', 'project:A');
  await add('b', 'mb', 'project:B');
  for (let at = 0; at < 40; at += 1) await signals.signal('ma', `heat/a${at}`);
  await until('the first deliveries', () => order.length === 8);
  await signals.signal('mb', 'heat/b');
  await until('the signal of the other owner', () => {
    waiting.shift()?.end('{}');
    return order.includes('/b');
  });
  t.true(order.indexOf('/b') < 16, `${order.indexOf('/b')} before it`);
  for (const response of waiting) response.end('{}');
});

function fill(
  quotas: OutboxQuotas,
  record: Parameters<OutboxQuotas['tryTake']>[0],
): FullQuota | undefined {
  for (;;) {
    const full = quotas.tryTake(record);
    if (full !== undefined) return full;
  }
}

test('held signals of the minions of one project leave bytes to other minions', (t) => {
  const projects = new Map([['b', 'B']]);
  const quotas = new OutboxQuotas(
    parseSignalsOptions().quotas,
    (minion) => projects.get(minion) ?? 'A',
  );
  const guests = Array.from({ length: 100 }, (_, at) => ({ minion: `a${at}`, bytes: 131_072 }));
  for (const guest of guests) fill(quotas, guest);
  t.is(quotas.tryTake({ minion: 'b', bytes: 131_072 }), undefined);
  // The bytes of held signals return to the project for which they were taken.
  projects.set('a0', 'C');
  for (let count = 0; count < 16; count += 1) quotas.release({ minion: 'a0', bytes: 131_072 });
  t.is(fill(quotas, { minion: 'a99', bytes: 131_072 }), 'held');
});

test('pending signals of several owners leave entries and bytes to a new owner', (t) => {
  for (const bytes of [200, 131_072]) {
    const quotas = new OutboxQuotas(parseSignalsOptions().quotas);
    for (let owner = 0; owner < 10; owner += 1) {
      for (let guest = 0; guest < 100; guest += 1) {
        fill(quotas, { minion: `${owner}-${guest}`, owner: `p${owner}`, stack: 's', bytes });
      }
    }
    t.is(quotas.tryTake({ minion: 'b', owner: 'b', stack: 's', bytes: 200 }), undefined);
  }
});
