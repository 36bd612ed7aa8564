/** Detects that the process that holds the master hangs. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { HolderWatch } from '#client/shared/holder-watch.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const own = JSON.stringify({ pid: 1, host: 'h', startedAt: 1 });

/** Watches a holder that handles connections with `answer`. */
async function watchHolder(
  t: ExecutionContext,
  takeoverAfterMs: number,
  answer: (connection: Socket) => void,
): Promise<HolderWatch> {
  const directory = temporaryDirectory(t);
  const server = createServer((connection) => {
    connection.on('error', () => {});
    answer(connection);
  });
  server.listen(path.join(directory, 'holder-1'));
  await once(server, 'listening');
  t.teardown(() => server.close());
  return new HolderWatch({ directory, takeoverAfterMs, onEnded: () => t.fail() });
}

/**
 * Checks the holder until `wanted` is found.
 * @returns all earlier results
 */
async function looksUntil(watch: HolderWatch, wanted: string): Promise<readonly string[]> {
  const looks: string[] = [];
  for (let seen = await watch.look(); seen !== wanted; seen = await watch.look()) {
    looks.push(seen);
    await sleep(20);
  }
  return looks;
}

test('a holder that is busy and answers late does not hang', async (t) => {
  const asked: Socket[] = [];
  let isBusy = true;
  const watch = await watchHolder(t, 600_000, (connection) => {
    if (isBusy) asked.push(connection);
    else connection.end(own);
  });
  t.is(await watch.look(), 'silent');
  isBusy = false;
  for (const connection of asked) connection.end(own);
  const before = await looksUntil(watch, 'answering');
  t.true(
    before.every((it) => it === 'silent'),
    before.join(' '),
  );
});

test('a holder that answers nothing for takeover_after hangs', async (t) => {
  const watch = await watchHolder(t, 1000, () => {});
  // The process id of the holder is not known here, so it cannot be ended.
  const before = await looksUntil(watch, 'hung');
  t.true(
    before.every((it) => it === 'silent'),
    before.join(' '),
  );
});
