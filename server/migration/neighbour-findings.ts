/** Files of other programs in `/etc/salt`. */

import { readdir } from 'node:fs/promises';
import path from 'node:path';
import type { MigrationFinding } from './finding.ts';
import { unreadableFinding } from './site-files.ts';

const neighbours: readonly {
  readonly names: RegExp;
  readonly finding: Pick<MigrationFinding, 'name' | 'outcome' | 'meaning' | 'remedy'>;
}[] = [
  {
    names: /^cloud($|\.(providers|profiles|conf|maps|deploy)(\.d)?$)/,
    finding: {
      name: 'salt-cloud',
      outcome: 'ignored',
      meaning:
        'salt-cloud goes on as a program of its own. Keys that it puts into pki_dir are noticed; its events reach nobody.',
      remedy:
        'Nothing, unless a reactor listens to salt/cloud/*; then act where salt-cloud is called.',
    },
  },
  {
    names: /^roster$/,
    finding: {
      name: 'roster',
      outcome: 'ignored',
      meaning: 'salt-ssh goes on as a program of its own.',
      remedy: 'Keep salt-ssh where it is installed; it needs no master.',
    },
  },
  {
    names: /^proxy(\.d)?$/,
    finding: {
      name: 'proxy minions',
      outcome: 'honoured',
      meaning: 'Proxy minions sign in as any minion does.',
      remedy: '',
    },
  },
];

/** One finding for each program whose files are there. Empty directories do not count. */
export async function neighbourFindings(directory: string): Promise<MigrationFinding[]> {
  const names = await readdir(directory).catch(() => undefined);
  if (names === undefined) return [unreadableFinding(directory)];
  const findings: MigrationFinding[] = [];
  for (const { names: pattern, finding } of neighbours) {
    for (const name of names.filter((it) => pattern.test(it)).sort()) {
      const file = path.join(directory, name);
      if (!(await isUsed(file))) continue;
      findings.push({ ...finding, kind: 'part', file, line: 0 });
      break;
    }
  }
  return findings;
}

async function isUsed(file: string): Promise<boolean> {
  const inside = await readdir(file).catch(() => undefined);
  return inside === undefined || inside.length > 0;
}
