/** Readers of events that come back, and those who ask for some events only. */
import test from 'ava';
import { openEvents } from '../helpers/event-reader.ts';
import { json, mayRead, startApi } from '../helpers/salt-api.ts';
import { clientFrame, framesOf, upgrade } from '../helpers/websocket-reader.ts';

const ring = { config: { eventRing: { entries: 100, bytes: 1_048_576 } }, minions: [] };

test('a stream goes on behind the last event that its reader saw', async (t) => {
  const { port, login, master } = await startApi(t, ring);
  const token = json(await login());
  const before = await openEvents(t, port, token);
  await master.events.fire('my/first', {});
  const text = await before.until(/id: .*\n\n/);
  const [, id = ''] = /^data: .*\nid: ([0-9a-f]+-\d+)\n$/m.exec(text) ?? [];
  t.not(id, '');
  before.response.destroy();
  await master.events.fire('my/second', {});
  const after = await openEvents(t, port, { ...token, 'last-event-id': id });
  await master.events.fire('my/third', {});
  await after.until(/my\/third.*\n/);
  t.deepEqual(after.tags, ['my/second', 'my/third']);
  const byQuery = await openEvents(t, port, token, `?last_event_id=${id}&match=*/third`);
  await byQuery.until(/my\/third.*\n/);
  t.deepEqual(byQuery.tags, ['my/third']);
});

test('a reader whose events are gone is told so', async (t) => {
  const { port, login } = await startApi(t, ring);
  const headers = { ...json(await login()), 'last-event-id': '0123456789ab-7' };
  const reader = await openEvents(t, port, headers);
  await reader.until(/^data: /m);
  t.is(reader.tags[0], 'saltbridge/events/missed');
});

test('several patterns mean what any of them means', async (t) => {
  const { port, login, master } = await startApi(t, { minions: [] });
  const reader = await openEvents(t, port, json(await login()), '?match=a/*&match=c');
  for (const tag of ['a/1', 'b', 'c']) await master.events.fire(tag, {});
  await reader.until(/tag: c\n/);
  t.deepEqual(reader.tags, ['a/1', 'c']);
});

test('of what is kept, too, a user reads what that user may', async (t) => {
  const { port, login, master } = await startApi(t, {
    ...ring,
    config: { ...ring.config, ...mayRead('limited', 'open/*') },
  });
  const limited = json(await login('limited'));
  for (const tag of ['open/1', 'secret', 'open/2']) await master.events.fire(tag, {});
  const headers = { ...limited, 'last-event-id': '0123456789ab-7' };
  const reader = await openEvents(t, port, headers);
  await reader.until(/open\/2.*\n/);
  t.deepEqual(reader.tags, ['saltbridge/events/missed', 'open/1', 'open/2']);
});

test('over WebSocket patterns and ids stand in the query, and ids come to who knows of them', async (t) => {
  const { port, login, master } = await startApi(t, ring);
  const token = await login();
  const client = await upgrade(t, port, `/ws/${token}?match=my/*&last_event_id=`);
  const head = await client.until('\r\n\r\n');
  client.write(clientFrame('websocket client ready'));
  await client.until('server received message');
  await master.events.fire('your/tag', {});
  await master.events.fire('my/tag', {});
  const bytes = await client.until('my/tag');
  const [, event = ''] = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4));
  const { id, tag } = JSON.parse(event.slice(6));
  t.is(tag, 'my/tag');
  await master.events.fire('my/next', {});
  const again = await upgrade(t, port, `/ws/${token}?match=my/*&last_event_id=${id}`);
  again.write(clientFrame('websocket client ready'));
  await again.until('my/next');
  t.false((await again.until('my/next')).includes('my/tag'));
});

test('format_events tells jobs and minions as they are', async (t) => {
  const { port, login, master } = await startApi(t, { minions: ['web1'] });
  const client = await upgrade(t, port, `/ws/${await login()}?format_events`);
  const head = await client.until('\r\n\r\n');
  client.write(clientFrame('websocket client ready'));
  await client.until('server received message');
  for await (const _ of master.jobs.run({ tgt: 'web1', fun: 'test.ping' }));
  const bytes = await client.until('complete');
  const frames = framesOf(bytes.subarray(head.indexOf('\r\n\r\n') + 4)).slice(1);
  const [job] = Object.values(JSON.parse(frames.at(-1) ?? '').jobs);
  t.like(job, {
    fun: 'test.ping',
    tgt: 'web1',
    tgt_type: 'glob',
    state: 'complete',
    minions: { web1: { success: true, return: true, retcode: 0 } },
  });
  await master.events.fire('salt/key', { id: 'web2', act: 'accept', result: true });
  await client.until('"minions": [{"id": "web2"}]');
});
