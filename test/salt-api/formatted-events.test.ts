/** The state of jobs that `format_events` sends: its cost, and its contents. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { createSilentLogger, type MasterEvent } from '#master';
import { TokenBuckets } from '#runtime';
import { FormattedEvents, FormattedTexts } from '#salt-api/formatted-events.ts';
import { StatePace, writeStates } from '#salt-api/formatted-stream.ts';
import { apiLimits } from '#salt-api/limits.ts';
import { slicesOf } from '../helpers/slices.ts';

const jid = '20260101000000000000';

function eventOf(what: string, data: MasterEvent['data']): MasterEvent {
  return { tag: `salt/job/${jid}/${what}`, data } as MasterEvent;
}

function encode(formatted: FormattedEvents, events: readonly MasterEvent[]): Buffer[] {
  formatted.apply(events);
  return formatted.take();
}

// Copying the minions of the job for each return would take several minutes.
test('the returns of a job with 20,000 minions are encoded in linear time', (t) => {
  const formatted = new FormattedEvents(new FormattedTexts(64 * 1_048_576));
  const minions = Array.from({ length: 20_000 }, (_, index) => `web${index}`);
  encode(formatted, [eventOf('new', { minions, fun: 'test.ping', tgt: '*' })]);
  const success = { return: true, retcode: 0, success: true };
  const [running, ...others] = encode(
    formatted,
    minions.slice(1).map((id) => eventOf(`ret/${id}`, success)),
  );
  t.deepEqual(others, []);
  t.true(running?.includes('"state": "running"') || running?.includes('"state":"running"'));
  const [failed] = encode(formatted, [eventOf('ret/web0', { ...success, success: false })]);
  t.true(failed?.includes('running'));
  const [complete] = encode(formatted, [eventOf('ret/web0', success)]);
  t.true(complete?.includes('complete'));
});

test('a return is encoded once for all readers and all states that contain it', (t) => {
  let reads = 0;
  const value = {
    get field() {
      reads += 1;
      return 'text';
    },
  };
  const texts = new FormattedTexts(1_048_576);
  const readers = Array.from({ length: 8 }, () => new FormattedEvents(texts));
  const all = (event: MasterEvent): Buffer[] => readers.flatMap((it) => encode(it, [event]));
  const large = eventOf('ret/a', { return: value, retcode: 0, success: true });
  encode(new FormattedEvents(texts), [large]);
  const once = reads;
  t.true(once > 0);
  t.is(all(large).length, 8);
  for (let count = 0; count < 4; count += 1) all(eventOf(`ret/b${count}`, { return: 1 }));
  t.is(reads, once);
  const [state] = encode(new FormattedEvents(texts), [
    eventOf('new', { minions: ['a'], fun: 'x.y', tgt: 'a', tgt_type: 'glob', _stamp: 's' }),
    eventOf('ret/a', { return: 'x'.repeat(300_000), retcode: 0, success: true }),
  ]);
  const text = String(state);
  t.deepEqual(JSON.parse(text.slice(text.indexOf('{'))).jobs[jid], {
    ...{ jid, start_time: 's', fun: 'x.y', tgt: 'a', tgt_type: 'glob', state: 'complete' },
    minions: { a: { return: 'VALUE_TRIMMED', retcode: 0, success: true } },
  });
});

type Batches = Parameters<typeof writeStates>[0];
type Options = Parameters<typeof writeStates>[2];

/**
 * Writes the states of one reader.
 * @returns the sent messages
 */
async function write(batches: Batches, pace: Options['pace']): Promise<string[]> {
  const sent: string[] = [];
  const queue = {
    waitingBytes: 0,
    push: (chunk: Uint8Array) => sent.push(String(chunk)) > 0,
    end: () => {},
  };
  await writeStates(batches, queue, {
    state: new FormattedEvents(new FormattedTexts(1_048_576)),
    keepAlive: Buffer.alloc(0),
    encode: () => [],
    flushTimer: { next: async () => {} },
    owner: 'fred',
    pace,
    log: createSilentLogger(),
  });
  return sent;
}

const returnOf = (id: string): MasterEvent =>
  eventOf(`ret/${id}`, { return: true, retcode: 0, success: true });

test('changes are combined as long as the user may send no further bytes', async (t) => {
  let mayGoOn = (): void => {};
  const paused = new Promise<void>((resolve) => {
    mayGoOn = resolve;
  });
  async function* batches(): Batches {
    for (let count = 0; count < 10; count += 1) yield [returnOf(`web${count}`)];
    mayGoOn();
    await nextTurn();
  }
  const pace = { turn: async () => {}, noteEvents: () => {}, noteSent: () => paused };
  const sent = await write(batches(), pace);
  t.is(sent.length, 2);
  t.regex(sent[1] ?? '', /web9/);
});

test('the bytes that the streams of a user send are limited', async (t) => {
  const waits: number[] = [];
  const rate = { perSecond: 1000, burst: 1000 };
  const buckets = new TokenBuckets(apiLimits.formattedBytes, () => 0, rate);
  const pace = new StatePace(buckets, async (milliseconds) => void waits.push(milliseconds));
  for (const owner of ['a', 'a', 'a', 'b']) await pace.noteSent(owner, 900);
  t.deepEqual(waits, [800, 1700]);
});

test('other work runs between the states of many readers', async (t) => {
  const minions = Array.from({ length: 10_000 }, (_, index) => `web${index}`);
  async function* batches(): Batches {
    yield [eventOf('new', { minions })];
    for (let count = 0; count < 4; count += 1) await nextTurn();
  }
  const pace = new StatePace();
  const readers = Array.from({ length: 8 }, () => write(batches(), pace));
  const slices = await slicesOf(() => Promise.all(readers));
  t.true(slices.length >= 7, `${slices.length} slices`);
});
