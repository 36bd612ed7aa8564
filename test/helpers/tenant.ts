/** Starts several masters in this process like tenants. Each has its own state on a real disk. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { pino } from 'pino';
import { connectMaster } from '#client';
import { loadTenants, type MasterConfig } from '#config';
import type { Master, MasterApi } from '#master';
import { createMinion, dialZeromq, type MinionKeys } from '#minion-protocol';
import { createMaster } from '#server';
import { layMasterKey, minionKeys } from './rsa-keys.ts';
import { SpeakingMinion } from './speaking-minion.ts';
import { temporaryDirectory } from './temporary-directory.ts';

/** Ids of the minions. Both tenants use the same ids with different keys. */
export const minionIds: readonly string[] = ['web1', 'db1'];

/** One tenant, with two connected minions. */
export interface TenantUnderTest {
  readonly name: string;
  /** Text that exists only in this tenant: in its pillar, files, returns, mine and so on. */
  readonly secret: string;
  /** Directory that contains all files of the tenant. */
  readonly root: string;
  readonly master: Master;
  /** The interface over the local socket. */
  readonly local: MasterApi;
  readonly keysOf: ReadonlyMap<string, MinionKeys>;
  /** Arguments with which the minions' function `test.reported` was called. */
  readonly reported: string[];
  readonly log: string[];
  /** Connects a minion with the same key that sends requests for a test. It has signed in. */
  speak(t: ExecutionContext, id: string): Promise<SpeakingMinion>;
}

/** Starts two tenants of one configuration directory. They are stopped at the end of the test. */
export async function startTenants(
  t: ExecutionContext,
): Promise<{ readonly red: TenantUnderTest; readonly blue: TenantUnderTest }> {
  const directory = temporaryDirectory(t);
  const names = ['red', 'blue'];
  writeFileSync(
    path.join(directory, 'master'),
    `saltbridge: {tenants: {${names.map((name) => `${name}: ${name}`).join(', ')}}}\n`,
  );
  for (const name of names) layOut(path.join(directory, name), name);
  const { tenants } = await loadTenants(directory);
  const started = tenants.map(({ name, config }, index) => {
    layMasterKey(config.pkiDir, 6 + index);
    return start(t, name, path.join(directory, name), config, 2 * index);
  });
  const [red, blue] = await Promise.all(started);
  if (red === undefined || blue === undefined) throw new Error('two tenants are expected');
  return { red, blue };
}

function layOut(root: string, name: string): void {
  mkdirSync(path.join(root, 'files'), { recursive: true });
  writeFileSync(path.join(root, 'files', 'secret.txt'), secretOf(name));
  const options = {
    root_dir: root,
    sock_dir: 's',
    interface: '127.0.0.1',
    publish_port: 0,
    ret_port: 0,
    auto_accept: true,
    timeout: 10,
    file_roots: { base: [path.join(root, 'files')] },
    peer: { '.*': ['test.reported'] },
    peer_run: { '.*': ['jobs.list_jobs'] },
    saltbridge: { acl: { signals: [{ tag: `${name}/*` }] } },
  };
  writeFileSync(path.join(root, 'master'), JSON.stringify(options));
}

function secretOf(name: string): string {
  return `what-only-${name}-knows`;
}

async function start(
  t: ExecutionContext,
  name: string,
  root: string,
  config: MasterConfig,
  firstKey: number,
): Promise<TenantUnderTest> {
  const secret = secretOf(name);
  const [log, reported]: [string[], string[]] = [[], []];
  const logger = pino({ level: 'debug' }, { write: (line) => void log.push(line) });
  const master = createMaster({
    config,
    logger,
    pillar: async ({ id }) => ({ secret: `${secret} for ${id}` }),
  });
  await master.start();
  const status = await master.status();
  const keysOf = new Map(minionIds.map((id, index) => [id, minionKeys(firstKey + index)]));
  const minions = Array.from(keysOf, ([id, keys]) =>
    createMinion({
      id,
      keys,
      transport: dialZeromq({ host: '127.0.0.1', requestPort: status.requestPort }),
      functions: {
        'test.reported': () => {
          reported.push(id);
          return `${secret} from ${id}`;
        },
      },
    }),
  );
  t.teardown(async () => {
    await Promise.all(minions.map((minion) => minion.stop()));
    await master.close();
  });
  await Promise.all(minions.map((minion) => minion.start()));
  const speak = async (by: ExecutionContext, id: string): Promise<SpeakingMinion> => {
    const speaker = new SpeakingMinion(by, id, keyOf({ keysOf }, id), status);
    await speaker.signIn();
    return speaker;
  };
  const local = connectMaster({ socketPath: config.socket });
  return { name, secret, root, master, local, keysOf, reported, log, speak };
}

/** Returns the keys of one of the tenant's minions. */
export function keyOf({ keysOf }: Pick<TenantUnderTest, 'keysOf'>, id: string): MinionKeys {
  const keys = keysOf.get(id);
  if (keys === undefined) throw new Error(`there is no ${id}`);
  return keys;
}
