/** Selects the style of a scalar like libyaml. */

import { resolveTag } from './yaml-scalar.ts';

/** Position of a scalar in the document. */
interface ScalarPosition {
  readonly isInFlow: boolean;
  readonly isKey: boolean;
}

const breaks = /[\n\x85\u2028\u2029]/;
const special = /[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]/u;
const blockIndicators =
  /^(?:---|\.\.\.)|^[#,[\]{}&*!|>'"%@`]|^[?:-](?=[\0 \t\r\n\x85\u2028\u2029]|$)|:(?=[\0 \t\r\n\x85\u2028\u2029]|$)|[\0 \t\r\n\x85\u2028\u2029]#/;
const flowIndicators = /^[?:]|[,?[\]{}:]/;

/** Returns the style in which a scalar is written: plain, single-quoted or double-quoted. */
export function scalarStyle(
  text: string,
  { isInFlow, isKey }: ScalarPosition,
): 'plain' | 'single' | 'double' {
  if (text === '') return 'single';
  const isMultiline = breaks.test(text);
  const isHard = special.test(text) || / [\n\x85\u2028\u2029]/.test(text);
  if (isHard) return 'double';
  if (isPlain(text, isInFlow, isMultiline) && resolveTag(text) === 'str') return 'plain';
  if (/[\n\x85\u2028\u2029] /.test(text) || (isKey && isMultiline)) return 'double';
  return 'single';
}

function isPlain(text: string, isInFlow: boolean, isMultiline: boolean): boolean {
  if (isMultiline || /^ | $/.test(text) || blockIndicators.test(text)) return false;
  return !isInFlow || !flowIndicators.test(text);
}

/** Whether a text can be a key on one line. */
export function isSimpleKey(text: string): boolean {
  return text.length <= 128 && !/[\r\n\x85\u2028\u2029]/.test(text);
}
