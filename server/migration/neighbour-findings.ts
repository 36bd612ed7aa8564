/** Findings about files of other programs in `/etc/salt`, for example of salt-cloud. */

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
        'salt-cloud continues to work as a separate program. The master detects keys that it puts into pki_dir, but does not receive its events.',
      remedy:
        'Nothing, if no reactor uses the tags salt/cloud/*. Otherwise, move these reactions to the program that calls salt-cloud.',
    },
  },
  {
    names: /^roster$/,
    finding: {
      name: 'roster',
      outcome: 'ignored',
      meaning: 'salt-ssh continues to work as a separate program.',
      remedy: 'Leave salt-ssh where it is installed; it needs no master.',
    },
  },
  {
    names: /^proxy(\.d)?$/,
    finding: {
      name: 'proxy minions',
      outcome: 'honoured',
      meaning: 'Proxy minions sign in like any minion.',
      remedy: '',
    },
  },
];

/** Returns a finding for each program whose files are present. Empty directories are ignored. */
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
