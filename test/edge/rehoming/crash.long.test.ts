import { cpSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import test from 'ava';
import { generateKey, publicBytesOf } from '#edge/identity/ed25519.ts';
import { type SiteIdentity, SiteIdentityFile } from '#edge/identity/site-identity.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { createRepository } from '../bundles/tuf-stage.ts';
import { runUntilKilled } from '../run-until-killed.ts';
import { statementOf } from './rehoming-stage.ts';

const child = fileURLToPath(new URL('crash-child.ts', import.meta.url));

function run(directory: string, killAt: number): Promise<string> {
  return runUntilKilled(child, [directory, String(killAt)]);
}

/** Joined site, in a directory that contains a statement about its next centre. */
async function prepare(
  directory: string,
): Promise<{ readonly old: string; readonly next: string }> {
  const centre = await createRepository('centre-1');
  const other = await createRepository('centre-2');
  const [root, nextRoot] = [await centre.repository.root(), await other.repository.root()];
  if (root === undefined || nextRoot === undefined) throw new Error('a centre has no root');
  const [oldKey, nextKey] = [generateKey(), generateKey()].map(publicBytesOf);
  if (oldKey === undefined || nextKey === undefined) throw new Error('two keys');
  const to = {
    id: 'centre-2',
    key: nextKey.toString('base64url'),
    root: Buffer.from(nextRoot).toString('base64'),
    addresses: ['https://next.example.org'],
    behindProxy: false,
  };
  await new SiteIdentityFile(directory).write({
    name: 'north',
    centre: 'https://old.example.org',
    centreKey: oldKey,
    joinedAt: 1,
    keyCreatedAt: 1,
    key: generateKey(),
    nextKey: undefined,
    formerKeys: [],
    root,
    generation: 0,
    rehomed: undefined,
    statement: undefined,
    statementFloor: 0,
  });
  writeFileSync(`${directory}/statement`, statementOf(to, centre.root));
  return { old: of(oldKey, root, 0, false), next: of(nextKey, nextRoot, 1, true) };
}

/** Describes the parts of an identity that must change together. */
function of(
  centreKey: Uint8Array,
  root: Uint8Array,
  generation: number,
  isRehomed: boolean,
): string {
  const texts = [centreKey, root].map((it) => Buffer.from(it).toString('base64'));
  return [...texts, generation, isRehomed].join(' ');
}

// EDGE-C15 of docs/consistency.md
test('a site has the former or the next identity after a crash at each step of the change', async (t) => {
  t.timeout(300_000);
  const source = temporaryDirectory(t);
  const { old, next } = await prepare(source);
  const copy = temporaryDirectory(t);
  cpSync(source, copy, { recursive: true });
  const steps = Number(await run(copy, 0));
  t.true(steps >= 20, `${steps} steps`);
  const seen = new Set<string>();
  const read = async (directory: string): Promise<SiteIdentity> => {
    t.is(statSync(`${directory}/identity.json`).mode & 0o777, 0o600);
    const identity = await new SiteIdentityFile(directory).read();
    if (identity === undefined) throw new Error('no identity');
    return identity;
  };
  for (let killAt = 1; killAt <= steps; killAt += 1) {
    const directory = temporaryDirectory(t);
    cpSync(source, directory, { recursive: true });
    await run(directory, killAt);
    const { centreKey, root, generation, rehomed, statement, key } = await read(directory);
    if (root === undefined) throw new Error('no root');
    const found = of(centreKey, root, generation, rehomed !== undefined);
    t.true(found === old || found === next, `step ${killAt}: a mixture`);
    // A site with its next centre does not hold the statement any more.
    if (found === next) t.is(statement, undefined);
    seen.add(found);
    // The next start completes the change.
    await run(directory, 0);
    const last = await read(directory);
    t.is(of(last.centreKey, last.root ?? Buffer.alloc(0), last.generation, true), next);
    t.false(last.key.equals(key) && last.formerKeys.length === 0);
    t.deepEqual(
      readdirSync(directory).filter((name) => name.endsWith('.tmp')),
      [],
    );
  }
  t.deepEqual([...seen].toSorted(), [old, next].toSorted());
  t.log(`${steps} steps`);
});
