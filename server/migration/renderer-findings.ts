/** Renderers that the files of a tree name in their first line. */

import type { MigrationFinding } from './finding.ts';
import { type Root, readStart, unreadableFinding, walkFiles } from './site-files.ts';

const firstLineBytes = 512;
const namedFiles = 5;

/** How pillar may be written. */
const servedPipelines: ReadonlySet<string> = new Set([
  'jinja|yaml',
  'jinja|json',
  'yaml',
  'json',
  'yaml_jinja',
  'json_jinja',
]);

/** Who renders the files of a tree. */
export type RenderedBy = 'minions' | 'master';

/** One finding for each pipeline such as `yaml|gpg`, and for what could not be read. */
export async function rendererFindings(root: Root, by: RenderedBy): Promise<MigrationFinding[]> {
  const { files, unreadable, isCut } = await walkFiles(root.directory);
  const unread = [...unreadable];
  const byPipeline = new Map<string, string[]>();
  for (const file of files.filter((name) => name.endsWith('.sls'))) {
    const start = await readStart(file, firstLineBytes);
    if (start === undefined) {
      unread.push(file);
      continue;
    }
    const pipeline = pipelineOf(start);
    if (pipeline !== undefined)
      byPipeline.set(pipeline, [...(byPipeline.get(pipeline) ?? []), file]);
  }
  return [
    ...[...byPipeline].map(([pipeline, found]) => finding(pipeline, found, by)),
    ...unread.map((file) => unreadableFinding(file)),
    ...(isCut ? [cutFinding(root.directory)] : []),
  ];
}

/** `#!jinja|yaml|gpg`: the renderers in order; options behind `?` and blanks are left out. */
function pipelineOf(text: string): string | undefined {
  const [, line = ''] = /^#!([^\r\n]*)/.exec(text) ?? [];
  // A script's own line names a program by its path.
  if (line === '' || line.trimStart().startsWith('/')) return undefined;
  const names = line.split('|').map((part) => /^\s*([\w.]+)/.exec(part)?.[1] ?? '');
  return names.every((name) => name !== '') ? names.join('|') : undefined;
}

function cutFinding(file: string): MigrationFinding {
  return {
    outcome: 'ignored',
    kind: 'file',
    name: 'large tree',
    file,
    line: 0,
    meaning: 'The tree has more files, or is deeper, than the check looks at.',
    remedy: 'Check its parts by themselves.',
  };
}

function finding(pipeline: string, files: readonly string[], by: RenderedBy): MigrationFinding {
  const [file = ''] = files;
  const others = files.length > 1 ? ` (${files.length} files${listed(files.slice(1))})` : '';
  const place = { kind: 'part', name: `#!${pipeline}`, file, line: 1 } as const;
  if (by === 'master' && servedPipelines.has(pipeline)) {
    return {
      ...place,
      outcome: 'honoured',
      meaning: `The master renders pillar so${others}.`,
      remedy: '',
    };
  }
  return by === 'minions'
    ? {
        ...place,
        outcome: 'honoured',
        meaning: `Minions render states themselves${others}.`,
        remedy: '',
      }
    : {
        ...place,
        outcome: 'refused',
        meaning: `Pillar is rendered by Jinja, YAML and JSON only${others}.`,
        remedy: pipeline.split('|').includes('gpg')
          ? 'Provide the pillar by a program, and let that decrypt what gpg had encrypted.'
          : 'Write it as jinja|yaml, or provide the pillar by a program.',
      };
}

function listed(files: readonly string[]): string {
  const names = files.slice(0, namedFiles).join(', ');
  return `: also ${names}${files.length > namedFiles ? ', …' : ''}`;
}
