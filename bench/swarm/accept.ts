import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type SwarmKeyText, swarmId } from './keys.ts';

/** Accepts the keys of a number of minions before the master starts. */
export async function acceptAll(
  pkiDir: string,
  count: number,
  keys: readonly Pick<SwarmKeyText, 'publicPem'>[],
): Promise<void> {
  const directory = path.join(pkiDir, 'minions');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (let index = 0; index < count; index += 1) {
    const id = swarmId(index);
    await writeFile(path.join(directory, id), keys[index % keys.length]?.publicPem ?? '');
  }
}
