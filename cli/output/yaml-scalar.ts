/** What libyaml knows of a text before it writes it [libyaml emitter.c, yaml_emitter_analyze_scalar]. */
import { isPlainYamlText } from '../../master/index.ts';

/** How a text can be written. */
export type ScalarStyle = 'plain' | 'single' | 'double';

/** Where it is to be written. */
export interface ScalarPlace {
  readonly isInFlow: boolean;
  readonly isKey: boolean;
}

/** What libyaml writes as it is; but for marks that turn the direction of writing. */
const printable = /^[\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd]$/u;
const breaks = /[\r\n\x85\u2028\u2029]/;
const blank = /^[ \t\r\n\x85\u2028\u2029]?$/;

/** Characters that mean something at the start of a plain text, and elsewhere. */
const startIndicators = '#,[]{}&*!|>\'"%@`';
const flowIndicators = ',?[]{}';

/** Whether libyaml writes this character only with an escape. */
export function needsEscape(character: string): boolean {
  return !printable.test(character);
}

/** The simplest style that keeps the text. */
export function chooseStyle(text: string, { isInFlow, isKey }: ScalarPlace): ScalarStyle {
  const facts = analyze(text);
  if (isKey && facts.isMultiline) return 'double';
  const isPlain = isInFlow ? facts.isPlainInFlow : facts.isPlainInBlock;
  if (text !== '' && isPlain && isPlainYamlText(text)) return 'plain';
  return facts.isSingle ? 'single' : 'double';
}

interface ScalarFacts {
  readonly isMultiline: boolean;
  readonly isPlainInFlow: boolean;
  readonly isPlainInBlock: boolean;
  readonly isSingle: boolean;
}

function analyze(text: string): ScalarFacts {
  const characters = Array.from(text);
  const isMultiline = breaks.test(text);
  const isSpecial = characters.some(needsEscape) || / [\r\n\x85\u2028\u2029]/.test(text);
  const hasBreakSpace = /[\r\n\x85\u2028\u2029] /.test(text);
  const isEdged = /^[ \r\n\x85\u2028\u2029]|[ \r\n\x85\u2028\u2029]$/.test(text);
  const isPlain = !isMultiline && !isSpecial && !isEdged;
  const indicators = findIndicators(characters);
  return {
    isMultiline,
    isPlainInFlow: isPlain && !indicators.inFlow,
    isPlainInBlock: isPlain && !indicators.inBlock,
    isSingle: !isSpecial && !hasBreakSpace,
  };
}

function findIndicators(characters: readonly string[]): { inFlow: boolean; inBlock: boolean } {
  const start = characters.slice(0, 3).join('');
  let inBlock = start === '---' || start === '...';
  let inFlow = inBlock;
  for (const [index, character] of characters.entries()) {
    const isBlankNext = blank.test(characters[index + 1] ?? '');
    const isBlankBefore = index === 0 || blank.test(characters[index - 1] ?? '');
    if (index === 0 && startIndicators.includes(character)) inBlock = true;
    if (index === 0 && character === '-' && isBlankNext) inBlock = true;
    if (index === 0 && character === '?' && isBlankNext) inBlock = true;
    if (character === ':' && isBlankNext) inBlock = true;
    if (character === '#' && isBlankBefore) inBlock = true;
    if (character === ':' || flowIndicators.includes(character)) inFlow = true;
  }
  return { inFlow: inFlow || inBlock, inBlock };
}
