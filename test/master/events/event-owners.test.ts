/** Owners of events: reactions to an event count for who has caused it. */

import test from 'ava';
import { EventBus } from '#master/events/event-bus.ts';
import { createBusApi } from '#master/events/events-api.ts';
import { eventRunner } from '#salt/runners/event-runner.ts';

const by = { who: { kind: 'user', name: 'fred', eauth: 'pam' }, rule: 'r' } as const;

test('an event that a user fires counts for this user, over each interface', async (t) => {
  const bus = new EventBus({ maxEventBytes: 1_000 });
  const events = bus.subscribe();
  const api = createBusApi(bus);
  const send = eventRunner({ bus, events: api })['event.send'];
  // Only the requester is used.
  const contextOf = (given: object) =>
    given as Parameters<ReturnType<NonNullable<typeof send>['bind']>>[0];
  await api.fire('a', {}, by);
  await send?.bind(['a'], {})(contextOf({ by }));
  await api.fire('a', {});
  await send?.bind(['a'], {})(contextOf({}));
  bus.close();
  const owners: unknown[] = [];
  for await (const event of events) owners.push(bus.ownerOf(event));
  t.deepEqual(owners, ['user pam/fred', 'user pam/fred', undefined, undefined]);
});
