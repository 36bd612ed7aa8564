/**
 * Finds the renderer pipelines that SLS files select in their first line, for example `#!yaml|gpg`.
 */

import type { MigrationFinding } from './finding.ts';
import { type Root, readStart, unreadableFinding, walkFiles } from './site-files.ts';

const firstLineBytes = 512;
const namedFiles = 5;

/** Renderer pipelines that saltbridge supports for pillar files. */
const servedPipelines: ReadonlySet<string> = new Set([
  'jinja|yaml',
  'jinja|json',
  'yaml',
  'json',
  'yaml_jinja',
  'json_jinja',
]);

/** Component that renders the files of a directory tree: the minions or the master. */
export type RenderedBy = 'minions' | 'master';

/**
 * Returns a finding for each renderer pipeline in use, such as `yaml|gpg`, and for each unreadable
 * file.
 */
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

/**
 * Returns the renderers of `#!jinja|yaml|gpg` in order, without spaces and without the options
 * after `?`.
 */
function pipelineOf(text: string): string | undefined {
  const [, line = ''] = /^#!([^\r\n]*)/.exec(text) ?? [];
  // The first line of a script contains the path of an interpreter, not renderers.
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
    meaning: 'The directory has more files or levels than the check reads.',
    remedy: 'Check its subdirectories separately.',
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
      meaning: `The master renders pillar with this pipeline${others}.`,
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
        meaning: `Pillar can only be rendered by Jinja, YAML and JSON${others}.`,
        remedy: pipeline.split('|').includes('gpg')
          ? 'Provide the pillar with a program that decrypts the gpg data.'
          : 'Rewrite it as jinja|yaml, or provide the pillar with a program.',
      };
}

function listed(files: readonly string[]): string {
  const names = files.slice(0, namedFiles).join(', ');
  return `: also ${names}${files.length > namedFiles ? ', …' : ''}`;
}
