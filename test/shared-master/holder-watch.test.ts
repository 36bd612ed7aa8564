/** When a process that holds the master counts as one that hangs. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { HolderWatch } from '#client/shared/holder-watch.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const takeoverAfterMs = 1500;
const own = JSON.stringify({ pid: 1, host: 'h', startedAt: 1 });

/** A holder that answers when `answer` says so. @returns what the looks of another process show */
async function looksAt(
  t: ExecutionContext,
  answer: (connection: Socket) => void,
): Promise<readonly string[]> {
  const directory = temporaryDirectory(t);
  const server = createServer((connection) => {
    connection.on('error', () => {});
    answer(connection);
  });
  server.listen(path.join(directory, 'holder-1'));
  await once(server, 'listening');
  t.teardown(() => server.close());
  const watch = new HolderWatch({ directory, takeoverAfterMs, onEnded: () => t.fail() });
  const looks: string[] = [];
  const end = performance.now() + 3 * takeoverAfterMs;
  while (performance.now() < end) {
    const seen = await watch.look();
    looks.push(seen);
    if (seen === 'hung') break;
    await sleep(100);
  }
  return looks;
}

test('a holder that is busy and answers late does not hang', async (t) => {
  const looks = await looksAt(t, (connection) => {
    setTimeout(() => connection.end(own), 700);
  });
  t.true(looks.includes('silent') && looks.includes('answering'), looks.join(' '));
  t.false(looks.includes('hung'));
});

test('a holder that answers nothing for takeover_after hangs', async (t) => {
  const looks = await looksAt(t, () => {});
  // Which process it is is not known here, so that it cannot be ended.
  t.is(looks.at(-1), 'hung');
  t.false(looks.includes('answering'));
});
