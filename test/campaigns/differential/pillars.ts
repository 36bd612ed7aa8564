/**
 * Generates random pillar trees: environments, top files with targets of all types, includes and
 * merging.
 */

import type { Random } from '../random.ts';
import { target } from './targets.ts';
import { template } from './templates.ts';
import { yamlDocument } from './yaml-documents.ts';

/** A pillar tree with the options for compiling it. */
export interface PillarQuestion {
  readonly files: Readonly<Record<string, string>>;
  readonly roots: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly saltenv: string | null;
  readonly pillarenv: string | null;
}

const names = ['a', 'b', 'c.d', 'e'] as const;

/** Generates one pillar tree. */
export function pillarTree(random: Random): PillarQuestion {
  const roots = random.below(4) === 0 ? ['base', 'dev'] : ['base'];
  const files: Record<string, string> = {};
  for (const root of roots) {
    files[`${root}/top.sls`] = top(random, random.below(8) === 0 ? 'dev' : root);
    for (const name of names) {
      if (random.below(8) === 0) continue;
      const place =
        random.below(4) === 0
          ? `${name.replace('.', '/')}/init.sls`
          : `${name.replace('.', '/')}.sls`;
      files[`${root}/${place}`] = sls(random);
    }
  }
  const options: Record<string, unknown> = {};
  if (random.below(2) === 0) {
    options.pillar_source_merging_strategy = random.of([
      'smart',
      'recurse',
      'aggregate',
      'overwrite',
      'none',
      'list',
    ]);
  }
  if (random.below(3) === 0) options.pillar_merge_lists = true;
  if (random.below(6) === 0) options.pillar_includes_override_sls = true;
  const pillarenv =
    roots.length > 1 ? random.of(['base', 'dev']) : random.of([null, null, 'base', 'nowhere']);
  return { files, roots, options, saltenv: random.of(['base', 'base', null]), pillarenv };
}

function top(random: Random, environment: string): string {
  const lines = Array.from({ length: 1 + random.below(3) }, () => {
    const { tgt, tgtType } = random.below(2) === 0 ? { tgt: '*', tgtType: 'glob' } : target(random);
    const wanted = Array.from({ length: 1 + random.below(3) }, () => `    - ${random.of(names)}`);
    const match = tgtType === 'glob' ? [] : [`    - match: ${tgtType}`];
    return [`  ${JSON.stringify(tgt)}:`, ...match, ...wanted].join('\n');
  });
  return `${environment}:\n${lines.join('\n')}\n`;
}

function sls(random: Random): string {
  const shared = [
    'shared:',
    `  n: ${random.below(9)}`,
    `  l: [${random.below(3)}, x]`,
    '  m: {k: 1.0}',
  ];
  const include =
    random.below(5) === 0
      ? `include:\n  - ${random.of(['a', 'b', 'c.d', 'e', 'gone', '.x'])}${random.below(3) === 0 ? ':\n      key: sub' : ''}\n`
      : '';
  const unique = `own${random.below(3)}: ${random.of(['1', 'y', '1.0', 'text', '[a]', '{b: c}'])}\n`;
  switch (random.below(8)) {
    case 0:
      return `${include}${yamlDocument(random)}`;
    case 1:
      return `${include}t: |\n  ${template(random).replaceAll('\n', '\n  ')}\n`;
    case 2:
      return `#!yaml\n${include}${shared.join('\n')}\n${unique}`;
    case 3:
      return `{% set n = grains.get('osmajorrelease', 1) %}\n${include}${unique}v: {{ n }}\nid: {{ grains.id }}\n`;
    default:
      return `${include}${shared.slice(0, 1 + random.below(4)).join('\n')}\n${unique}`;
  }
}
