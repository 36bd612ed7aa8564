/**
 * Determines the renderers of a file from its first line or the option `renderer`
 * [salt/template.py].
 */

import { MasterError } from '#master';

/** Rendering steps of a file, in the order of execution. */
export interface RenderPipe {
  readonly isTemplate: boolean;
  readonly format: 'yaml' | 'json';
}

const pipes: Readonly<Record<string, RenderPipe>> = {
  yaml: { isTemplate: false, format: 'yaml' },
  json: { isTemplate: false, format: 'json' },
  'jinja|yaml': { isTemplate: true, format: 'yaml' },
  'jinja|json': { isTemplate: true, format: 'json' },
  yaml_jinja: { isTemplate: true, format: 'yaml' },
  json_jinja: { isTemplate: true, format: 'json' },
};

const noCode =
  'it would run code in the master; use Jinja, or pass a pillar function to createMaster';
const noKeys =
  'the master does not decrypt; store secrets elsewhere and pass a pillar function to createMaster';

/** Advice for files that use an unsupported renderer, by the name of the renderer. */
const waysOut: Readonly<Record<string, string>> = {
  py: noCode,
  pydsl: noCode,
  pyobjects: noCode,
  gpg: noKeys,
  nacl: noKeys,
};
const otherWayOut = 'use jinja|yaml, jinja|json, yaml or json';

/**
 * Returns the renderers of a file.
 * @param standard - the option `renderer`
 * @throws MasterError ERR_RENDERER for unsupported renderers
 */
export function pipeOf(text: string, standard: string): RenderPipe {
  const [line = ''] = text.split('\n', 1);
  const isMarked = line.startsWith('#!') && !line.startsWith('#!/');
  const names = (isMarked ? line.trim().slice(2) : standard).split('|').map((name) => name.trim());
  const pipe = names.join('|');
  const known = Object.hasOwn(pipes, pipe) ? pipes[pipe] : undefined;
  if (known !== undefined) return known;
  const [strange = ''] = names.filter((name) => !['jinja', 'yaml', 'json'].includes(name));
  const [name = ''] = (strange || pipe).split(' ', 1);
  const remedy = Object.hasOwn(waysOut, name) ? waysOut[name] : otherWayOut;
  throw new MasterError('ERR_RENDERER', `the renderer "${name}" is not served: ${remedy}`);
}

/**
 * Returns why a value of the option `renderer` is not supported, or `undefined` if it is supported.
 */
export function rendererProblem(standard: string): string | undefined {
  try {
    pipeOf('', standard);
    return undefined;
  } catch (error) {
    if (error instanceof MasterError) return error.message;
    throw error;
  }
}
