/** Source of the releases of the campaign: a policy of 200 KB, and 8 MB of text files. */

import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Random } from '../random.ts';

const words = ['server', 'listen', 'cache', 'timeout', 'upstream', 'proxy', 'limit', 'user'];

export interface SourceSizes {
  readonly files: number;
  readonly bytesOfFile: number;
  readonly rules: number;
}

/** Sizes of the campaign: 1,032 files with 7.9 MB, and a policy of about 200 KB. */
export const wholeSizes: SourceSizes = { files: 1032, bytesOfFile: 7700, rules: 1100 };

/** Part of the files that a change replaces: 2 %. */
const changedPart = 0.02;

/** Interval of the rules that a change replaces. */
const changedRules = 10;

/** Directories and files from which a centre packs its releases. */
export class ReleaseSource {
  /** Configuration directory of the releases. */
  readonly directory: string;
  readonly pillarRoot: string;
  /** Directory of the files, in the release and at the sites. */
  readonly fileRoot: string;
  readonly #seed: number;
  readonly #sizes: SourceSizes;

  constructor(directory: string, seed: number, sizes: SourceSizes) {
    this.directory = path.join(directory, 'config');
    this.pillarRoot = path.join(directory, 'pillar');
    this.fileRoot = path.join(directory, 'files');
    this.#seed = seed;
    this.#sizes = sizes;
  }

  /** Writes everything. */
  write(): void {
    for (let index = 0; index < this.#sizes.files; index += 1) this.#writeFile(index, '');
    write(path.join(this.pillarRoot, 'top.sls'), "base:\n  '*':\n    - node\n");
    write(
      path.join(this.pillarRoot, 'node.sls'),
      [
        'name: {{ grains.id }}',
        'serial: s{{ grains.serialnumber }}',
        "role: {% if grains.role == 'web' %}web{% else %}{{ grains.role }}{% endif %}",
        "os: {% if grains.os == 'Debian' %}Debian{% else %}{{ grains.os }}{% endif %}",
        '',
      ].join('\n'),
    );
    const roots = { file_roots: this.fileRoot, pillar_roots: this.pillarRoot };
    const lines = Object.entries(roots).map(([name, root]) => `${name}:\n  base: [${root}]\n`);
    write(path.join(this.directory, 'master'), lines.join(''));
    this.#writePolicy('first');
  }

  /** Inserts a line in 2 % of the files, or replaces their content; and replaces one rule in ten. */
  change(mark: string, kind: 'insert' | 'replace'): void {
    const random = new Random(this.#seed, 7);
    const indexes = new Set<number>();
    const count = Math.max(1, Math.round(this.#sizes.files * changedPart));
    while (indexes.size < count) indexes.add(random.below(this.#sizes.files));
    for (const index of indexes) {
      if (kind === 'insert') this.#writeFile(index, `changed: ${mark} ${index}\n`);
      else this.#writeFile(index, '', this.#seed + 1);
    }
    this.#writePolicy(mark);
  }

  #writeFile(index: number, inserted: string, seed = this.#seed): void {
    const random = new Random(seed, index + 100);
    let text = '';
    let isInserted = false;
    while (text.length < this.#sizes.bytesOfFile) {
      const word = words[random.below(words.length)] ?? '';
      text += `${word}_${random.below(100_000)} = ${random.below(1_000_000_000)};\n`;
      if (isInserted || text.length < this.#sizes.bytesOfFile / 2) continue;
      text += inserted;
      isInserted = true;
    }
    write(path.join(this.fileRoot, `d${index % 16}`, `f${index}.conf`), text);
  }

  #writePolicy(mark: string): void {
    const random = new Random(this.#seed, 3);
    let text = 'saltbridge:\n  acl:\n    rules:\n';
    for (let index = 0; index < this.#sizes.rules; index += 1) {
      const group = index % changedRules === 0 ? mark : 'group';
      text += `      rule ${index} of ${group}:\n`;
      text += `        subject: { minion: "${group}${random.below(1_000_000)}-*" }\n`;
      text += '        action: publish\n';
      text += `        resource: { fun: app${random.below(10_000)}.restart, within: "n${index}*" }\n`;
    }
    write(path.join(this.directory, 'master.d', 'policy.conf'), text);
  }
}

function write(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}
