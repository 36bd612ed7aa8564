/** Checks that a master accepts the requests of the genuine minion and rejects others. */
import type { ExecutionContext } from 'ava';
import type { VectorMaster } from './vector-master.ts';
import { altered, freshNonce, openReply, recorded } from './vector-requests.ts';
import { keys } from './vectors.ts';

const startEvent = recorded('minion_event', 'start event v3');
/** The packed text `bad load`. */
const badLoad = 'a8626164206c6f6164';

/** Checks that the genuine request is accepted and its event is fired. */
export async function isHeard(t: ExecutionContext, master: VectorMaster): Promise<void> {
  const nonce = freshNonce();
  const events = await master.eventsDuring(async () => {
    const reply = await master.ask(altered(startEvent, { load: { nonce } }));
    t.is(openReply(startEvent, reply, nonce), null);
  });
  t.deepEqual(
    events.map(({ tag }) => tag),
    [`salt/minion/${keys.minionId}/start`],
  );
}

/**
 * Sends a request and checks that the reply is `bad load` and no event is fired. Returns the reason
 * that the master counted.
 */
export async function refusedAs(master: VectorMaster, request: Uint8Array): Promise<string> {
  const before = await master.counters();
  const events = await master.eventsDuring(async () => {
    const reply = await master.ask(request);
    if (reply.toString('hex') !== badLoad) throw new Error('it was not refused');
  });
  if (events.length > 0) throw new Error('an event was fired');
  const after = await master.counters();
  return Object.keys(after)
    .filter((reason) => after[reason] !== before[reason])
    .join();
}
