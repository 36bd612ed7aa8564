/** Authenticates values that are stored on a server to which others can write. */

import { randomBytes } from 'node:crypto';
import test, { type ExecutionContext } from 'ava';
import { authenticateValues } from '#guests/data-spaces/authenticated-coordinator.ts';
import {
  type CoordinatedValue,
  type Coordinator,
  createStoreCoordinator,
} from '#guests/data-spaces/coordinator.ts';
import { memoryState } from '../signals/open-signals.ts';
import { coordinatorSuite } from './coordinator-suite.ts';

const key = randomBytes(32);
const quiet = { warn: (): void => {} };

coordinatorSuite('authenticated', async () => {
  const state = memoryState();
  const open = async (): Promise<Coordinator> =>
    authenticateValues(await createStoreCoordinator(state), key, quiet);
  return { coordinator: await open(), restart: open };
});

/** Returns the stored bytes of an existing key. */
async function keptOf(t: ExecutionContext, within: Coordinator, name: string): Promise<Buffer> {
  const found = await within.get('s', name);
  t.truthy(found);
  return Buffer.from(found?.value ?? []);
}

test('a value that another program wrote or moved is refused by name', async (t) => {
  const server = await createStoreCoordinator(memoryState());
  const told: object[] = [];
  const log = { warn: (about: object): unknown => told.push(about) };
  const values = authenticateValues(server, key, log);
  const write = (name: string, text: string, version = 1): Promise<boolean> =>
    values.put('s', name, { value: Buffer.from(text), version });
  for (const name of ['db/a', 'db/b', 'db/state']) await write(name, `of ${name}`);
  const first = await keptOf(t, server, 'db/state');
  await write('db/state', 'later', 2);
  t.is(`${(await values.get('s', 'db/state'))?.value}`, 'later');
  t.is((await values.sizes('s')).get('db/a'), 'of db/a'.length);

  const own = await keptOf(t, server, 'db/a');
  const changed = Buffer.from(own);
  changed[own.length - 1] = 0;
  const another = authenticateValues(
    await createStoreCoordinator(memoryState()),
    randomBytes(32),
    quiet,
  );
  await another.put('s', 'db/a', { value: Buffer.from('x'), version: 2 });
  const altered: readonly (readonly [string, string, CoordinatedValue])[] = [
    ['s', 'db/a', { value: changed, version: 2 }],
    ['s', 'db/a', { value: Buffer.from('plain text'), version: 3 }],
    ['s', 'db/a', { value: new Uint8Array(), version: 4 }],
    // These values belong to another key, to another stack, or are older versions.
    ['s', 'db/b', { value: own, version: 2 }],
    ['t', 'db/a', { value: own, version: 1 }],
    ['s', 'db/state', { value: first, version: 3 }],
  ];
  for (const [space, name, value] of altered) {
    t.true(await server.put(space, name, value));
    const error = await t.throwsAsync(values.get(space, name), { code: 'ERR_DATA_ALTERED' });
    t.true(error?.message.startsWith(`${name}: `));
  }
  t.like(told[0], { space: 's', key: 'db/a' });
  // The problem is reported once per minute.
  t.is(told.length, 1);
});
