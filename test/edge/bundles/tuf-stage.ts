/** A repository of metadata and its client, without a master. */

import { createHash } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { decodeMetadata } from '#edge/bundles/metadata-body.ts';
import { TufClient } from '#edge/bundles/tuf-client.ts';
import { createSigningKey, type SigningKey } from '#edge/bundles/tuf-keys.ts';
import { createRoot, type ReleaseTarget, signTargets } from '#edge/bundles/tuf-metadata.ts';
import { TufRepository } from '#edge/bundles/tuf-repository.ts';
import type { SharedArea, StateArea } from '#master';
import { createMemoryStore } from '#store';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

export const dayMs = 86_400_000;

/** Clock that a test sets. */
export interface Clock {
  now: number;
}

/** Rows in memory, without encryption. */
export function memoryRows(clock: Clock): StateArea {
  const store = createMemoryStore({ now: () => clock.now });
  return {
    get: (key) => store.get(key),
    list: (prefix, options) => store.list(prefix, options),
    write: (operations) => store.write(operations),
    seal: (plain) => plain,
    unseal: (sealed) => sealed,
  };
}

/** A centre that only publishes metadata. */
export interface TestRepository {
  readonly repository: TufRepository;
  readonly rows: SharedArea;
  readonly clock: Clock;
  readonly root: SigningKey[];
  readonly targets: SigningKey;
  /** Publishes a manifest as version `version` of the ring `all`. */
  publish(version: number, signers?: readonly SigningKey[]): Promise<ReleaseTarget>;
  /** Replaces the root. */
  rotate(root: readonly SigningKey[], signers: readonly SigningKey[]): Promise<void>;
}

export async function createRepository(
  id: string,
  clock: Clock = { now: Date.now() },
): Promise<TestRepository> {
  const area = memoryRows(clock);
  const rows: SharedArea = { ...area, follow: async () => {}, cluster: undefined };
  const repository = new TufRepository({ rows, now: () => clock.now });
  const root = [createSigningKey(), createSigningKey(), createSigningKey()];
  const targets = createSigningKey();
  const online = await repository.onlineKeys();
  const setRoot = async (
    version: number,
    keys: readonly SigningKey[],
    signers: readonly SigningKey[],
  ): Promise<void> => {
    const content = {
      version,
      centre: id,
      keys: {
        root: keys.map((it) => it.publicKey),
        targets: [targets.publicKey],
        snapshot: [online.snapshot],
        timestamp: [online.timestamp],
      },
    };
    await repository.setRoot(await createRoot(content, signers, clock.now));
  };
  await setRoot(1, root, root);
  let version = 1;
  return {
    repository,
    rows,
    clock,
    root,
    targets,
    publish: async (release, signers = [targets]) => {
      const sha256 = createHash('sha256').update(`${id} ${release}`).digest('hex');
      const target = { ring: 'all', version: release, length: 10, sha256 };
      const proposed = await repository.proposeTargets([target]);
      const signed = await signTargets(proposed, signers);
      await repository.requireTargets(signed);
      await rows.write([...(await repository.publish(signed))]);
      return target;
    },
    rotate: async (keys, signers) => {
      await setRoot(version + 1, keys, signers);
      version += 1;
    },
  };
}

/** Files of a repository, as a client gets them. A test can replace some. */
export type Served = (name: string) => Promise<Uint8Array | undefined>;

/** Copies all files of a repository. */
export async function copyOf({ repository }: TestRepository): Promise<Map<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  const names = ['timestamp.json'];
  for (let version = 1; version < 12; version++) {
    for (const role of ['root', 'targets', 'snapshot']) names.push(`${version}.${role}.json`);
  }
  for (const name of names) {
    const bytes = await repository.file(name);
    if (bytes !== undefined) files.set(name, Buffer.from(bytes));
  }
  return files;
}

/** A site that only reads metadata. */
export interface TestSite {
  readonly clock: Clock;
  served: Served;
  update(version: number): Promise<{ readonly sha256: string }>;
  /** Updates as a site does: with one body from the centre. */
  updateAtOnce(version: number, alter?: (body: Buffer) => Uint8Array): Promise<UpdateAtOnce>;
}

export interface UpdateAtOnce {
  readonly sha256: string;
  /** Number of the files of the site that were the dictionary. */
  readonly known: number;
  /** Size of the body, in bytes. */
  readonly bytes: number;
  /** Files that the client has read one by one. */
  readonly asked: readonly string[];
}

export async function createSite(
  t: ExecutionContext,
  centre: TestRepository,
  clock: Clock = centre.clock,
): Promise<TestSite> {
  const root = await centre.repository.root();
  const rows = memoryRows(clock);
  const asked: string[] = [];
  const site: TestSite = {
    clock,
    served: (name) => centre.repository.file(name),
    update: (version) => client.target('all', version),
    updateAtOnce: async (version, alter = (it) => it) => {
      const stored = await client.known();
      const { body, known } = await centre.repository.update(stored.versions);
      const dictionary = Buffer.concat(stored.files.slice(0, known));
      const before = asked.length;
      const given = decodeMetadata(alter(Buffer.from(body)), dictionary);
      const { sha256 } = await client.target('all', version, given);
      return { sha256, known, bytes: body.length, asked: asked.slice(before) };
    },
  };
  const client = new TufClient({
    rows,
    directory: temporaryDirectory(t),
    joinedRoot: async () => root,
    fetch: (name) => {
      asked.push(name);
      return site.served(name);
    },
    now: () => clock.now,
  });
  return site;
}
