/** Keys and sources of releases for tests. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import {
  createRoot,
  createSigningKey,
  type OnlineKeys,
  type ProposedRelease,
  type ReleaseState,
  type SigningKey,
  signTargets,
} from '#edge';
import type { StageMaster } from '../edge-stage.ts';

/** Offline keys of a centre. */
export interface OfflineKeys {
  readonly root: readonly SigningKey[];
  readonly targets: SigningKey;
}

/** Creates offline keys and gives the first root to a centre. */
export async function initKeys(
  centre: Pick<StageMaster, 'rpc'>,
  id = 'centre-1',
): Promise<OfflineKeys> {
  const root = [createSigningKey(), createSigningKey(), createSigningKey()];
  const targets = createSigningKey();
  const client = centre.rpc('site');
  const online = await client.call<OnlineKeys>('releases.onlineKeys', { areNew: false });
  const keys = {
    root: root.map((it) => it.publicKey),
    targets: [targets.publicKey],
    snapshot: [online.snapshot],
    timestamp: [online.timestamp],
  };
  const bytes = await createRoot({ version: 1, centre: id, keys }, root, Date.now());
  await client.call('releases.setRoot', { root: bytes.toString('base64') });
  return { root, targets };
}

/** Publishes the source of a centre. */
export async function publish(
  centre: Pick<StageMaster, 'rpc'>,
  { targets }: Pick<OfflineKeys, 'targets'>,
  request: { readonly contentOf?: number; readonly above?: number } = {},
): Promise<ReleaseState & Pick<ProposedRelease, 'warnings'>> {
  const client = centre.rpc('site');
  const proposed = await client.call<ProposedRelease>('releases.propose', request);
  const signed = await signTargets(Buffer.from(proposed.targets, 'base64'), [targets]);
  const state = await client.call<ReleaseState>('releases.publish', {
    version: proposed.version,
    targets: signed.toString('base64'),
  });
  return { ...state, warnings: proposed.warnings };
}

/** Writes files below a directory. */
export function writeFiles(directory: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(directory, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
}
