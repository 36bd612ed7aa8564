/** Thorium's formulas say themselves which tags they listen for. */
import type { Settings } from '../config/settings.ts';
import type { Listening } from './listeners.ts';
import { rootsOf } from './roots.ts';
import { readStart, walkFiles } from './walk.ts';

const maxFormulaBytes = 262_144;

/** `- match: my/tag` in a state of `reg.*` [salt/thorium/reg.py]; templates are not rendered. */
const matchLine = /^\s*-?\s*match:\s*(['"]?)(.+?)\1\s*(?:#.*)?$/;

/** The patterns in every formula below `thorium_roots`. */
export async function thoriumPatterns(settings: Settings): Promise<Listening[]> {
  const found: Listening[] = [];
  for (const { directory } of rootsOf(settings, 'thorium_roots')) {
    const { files } = await walkFiles(directory);
    for (const file of files.filter((name) => name.endsWith('.sls'))) {
      found.push(...patternsIn(file, await readStart(file, maxFormulaBytes)));
    }
  }
  return found;
}

function patternsIn(file: string, text = ''): Listening[] {
  return text.split('\n').flatMap((line, index) => {
    const pattern = matchLine.exec(line)?.[2];
    return pattern === undefined ? [] : [{ pattern, listener: 'thorium', file, line: index + 1 }];
  });
}
