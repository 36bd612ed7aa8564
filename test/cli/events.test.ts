import { Writable } from 'node:stream';
import test from 'ava';
import type { EventsRequest, MasterEvent } from '../../master/index.ts';
import { runCli, streamOf } from './run-cli.ts';

const events: MasterEvent[] = [
  { tag: 'salt/auth', data: { id: 'm1', act: 'accept', n: [1, null] } },
  { tag: 'bad\n\x1b[2J', data: { text: 'a\nb\x1b' } },
  { tag: 'salt/key', data: {} },
];

function master(requests: (EventsRequest | undefined)[] = []) {
  return {
    events: {
      subscribe: (request?: EventsRequest) => {
        requests.push(request);
        return streamOf(...events);
      },
    },
  };
}

test('events are printed as salt-run state.event prints them', async (t) => {
  const { code, stdout } = await runCli(['events'], { master: master() });
  t.is(
    stdout,
    'salt/auth\t{"id": "m1", "act": "accept", "n": [1, null]}\n' +
      'bad\\n\\x1b[2J\t{"text": "a\\nb\\u001b"}\nsalt/key\t{}\n',
  );
  t.is(code, 0);
});

test('--json prints one object a line', async (t) => {
  const { stdout } = await runCli(['events', '--json'], { master: master() });
  const lines = stdout.trimEnd().split('\n');
  t.deepEqual(
    lines.map((line) => JSON.parse(line)),
    events.map(({ tag, data }) => ({ tag, data })),
  );
});

test('--count ends after so many events', async (t) => {
  const { stdout } = await runCli(['events', '--count', '2'], { master: master() });
  t.is(stdout.trimEnd().split('\n').length, 2);
  t.is((await runCli(['events', '--count', '0'], { master: master() })).code, 64);
});

test('the pattern goes to the master', async (t) => {
  const requests: (EventsRequest | undefined)[] = [];
  await runCli(['events', 'salt/job/*'], { master: master(requests) });
  await runCli(['events'], { master: master(requests) });
  t.deepEqual(requests, [{ match: 'salt/job/*' }, {}]);
});

test('Ctrl-C ends without an error', async (t) => {
  const controller = new AbortController();
  async function* subscribe(): AsyncGenerator<MasterEvent, void, void> {
    yield* events;
    controller.abort();
    throw new Error('the connection was given up');
  }
  const { code, stderr } = await runCli(['events'], {
    interruption: controller.signal,
    master: { events: { subscribe } },
  });
  t.is(stderr, '');
  t.is(code, 0);
});

test('a reader that has gone ends the command quietly', async (t) => {
  class ClosedPipe extends Writable {
    readonly text = '';
    override _write(_chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
      process.nextTick(done, Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    }
  }
  const stdout = new ClosedPipe({ highWaterMark: 1 });
  stdout.on('error', () => {});
  const { code, stderr } = await runCli(['events'], { master: master(), stdout });
  t.is(stderr, '');
  t.is(code, 0);
});
