/**
 * Adds inputs to inline SLS. Salt has no function that passes pillar data to inline SLS. Lines
 * before the SLS therefore define the inputs.
 */

import { BridgeError, isPlainMap } from '#heat-bridge';
import { findInterpretedText } from '#minion-protocol';
import { writeJson } from '#runtime';
import { configText, type GroupConfig } from './group-config.ts';

/**
 * Returns the SLS of a config: its text, or its map as YAML.
 * @throws BridgeError ERR_CFN_INIT
 */
export function slsText(config: Pick<GroupConfig, 'config' | 'group'>): string {
  return typeof config.config === 'string' ? configText(config) : flowYaml(config.config);
}

/**
 * Returns a value as YAML in flow style. Strings that contain double quotes are written in single
 * quotes, so that Jinja expressions in them stay unchanged.
 */
function flowYaml(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flowYaml).join(', ')}]`;
  if (isPlainMap(value)) {
    const members = Object.entries(value).map(([key, it]) => `${flowYaml(key)}: ${flowYaml(it)}`);
    return `{${members.join(', ')}}`;
  }
  const isQuotable = typeof value === 'string' && value.includes('"') && !/['\p{Cc}]/u.test(value);
  return isQuotable ? `'${value}'` : writeJson(value ?? null);
}

/**
 * Matches the names of Salt functions that read the minion's own configuration and pillar. These
 * functions cannot return inputs of a deployment.
 */
const ownReader = /\b(?:config\.(?:get|option)|pillar\.(?:get|item))\b/;

/** Matches the start of a possible call of a Salt function, or the opening quote of a string. */
const callOrQuote = /\bsalt(?=[.[])|['"]/g;

/**
 * Matches a call of `config.get` or `pillar.get` with one quoted name and, optionally, a default
 * without brackets.
 */
const inputRead =
  /salt(?:\[\s*(['"])(?:config|pillar)\.get\1\s*\]|\.(?:config|pillar)\.get)\(\s*(['"])([\w-]+)\2\s*(?:,[^(){}]*)?\)/y;

/** Patterns of complete strings in Jinja code, by their quotation mark. */
const quotedText: Readonly<Record<string, RegExp>> = {
  "'": /'(?:[^'\\]|\\[\s\S])*'/y,
  '"': /"(?:[^"\\]|\\[\s\S])*"/y,
};

/**
 * Yields the start and end positions of Jinja expressions and statements. Jinja does not evaluate
 * text outside of them. Takes linear time, even if many expressions are not closed.
 */
function* jinjaCode(sls: string): Generator<readonly [start: number, end: number], void, void> {
  const missing = new Set<string>();
  for (let start = sls.indexOf('{'); start !== -1; ) {
    const next = sls[start + 1];
    const closing = next === '{' ? '}}' : next === '%' ? '%}' : undefined;
    const isOpen = closing !== undefined && !missing.has(closing);
    const end = isOpen ? sls.indexOf(closing, start + 2) : -1;
    if (isOpen && end === -1) missing.add(closing);
    if (end !== -1) yield [start, end + 2];
    start = sls.indexOf('{', end === -1 ? start + 1 : end + 2);
  }
}

/**
 * Finds simple calls of `config.get` and `pillar.get` that read an input, and replaces each call by
 * a direct access to this input. Only Jinja code is changed. SLS with `raw` blocks is returned
 * unchanged, because Jinja code in such blocks is plain text.
 */
function withInputReads(sls: string, inputs: ReadonlySet<string>): string {
  if (/\{%[-+]?\s*raw\b/.test(sls)) return sls;
  const parts: string[] = [];
  let at = 0;
  for (const [start, end] of jinjaCode(sls)) {
    parts.push(sls.slice(at, start), codeWithInputReads(sls.slice(start, end), inputs));
    at = end;
  }
  parts.push(sls.slice(at));
  return parts.join('');
}

/**
 * Replaces simple calls of `config.get` and `pillar.get` in one Jinja expression or statement. If a
 * string is not closed, the code after its opening quote stays unchanged.
 */
function codeWithInputReads(code: string, inputs: ReadonlySet<string>): string {
  const parts: string[] = [];
  let at = 0;
  callOrQuote.lastIndex = 0;
  for (let start = callOrQuote.exec(code); start !== null; start = callOrQuote.exec(code)) {
    const [begun] = start;
    const form = quotedText[begun] ?? inputRead;
    form.lastIndex = start.index;
    const found = form.exec(code);
    const name = form === inputRead ? found?.[3] : undefined;
    if (found === null && form !== inputRead) break;
    if (name !== undefined && inputs.has(name)) {
      parts.push(code.slice(at, start.index), `saltbridge_inputs['${name}']`);
      at = form.lastIndex;
    }
    if (found !== null) callOrQuote.lastIndex = form.lastIndex;
  }
  parts.push(code.slice(at));
  return parts.join('');
}

/**
 * Returns SLS in which `pillar` and `opts` include the inputs. Simple calls of `config.get` and
 * `pillar.get` that name an input are replaced by the input. The inputs are encoded in base64, so
 * that Jinja does not evaluate them.
 * @throws BridgeError ERR_COMMAND_PARAMETERS if the SLS reads an input with a function that cannot
 * return inputs
 */
export function slsWithInputs(
  given: string,
  { inputs, facts }: Pick<GroupConfig, 'facts' | 'inputs'>,
): string {
  const names = Object.keys(inputs);
  const known = new Set([...names, ...Object.keys(facts)]);
  const isRenderedElsewhere = given.startsWith('#!');
  const sls = isRenderedElsewhere ? given : withInputReads(given, known);
  if (names.length > 0 && isRenderedElsewhere) {
    throw inputsError(
      'inline SLS that begins with a renderer line (#!…) cannot have inputs; remove the line or the inputs',
    );
  }
  const [, reader] = new RegExp(`(${ownReader.source})`).exec(sls) ?? [];
  const misread = reader === undefined ? undefined : findMisread(known, sls);
  if (reader !== undefined && misread !== undefined) {
    const text = `${reader} cannot return the input ${misread}; write pillar['${misread}'] or opts['${misread}'] instead`;
    throw inputsError(text);
  }
  const readsFacts = sls.includes('deploy_');
  if (isRenderedElsewhere || (names.length === 0 && !readsFacts)) return sls;
  // The catalog has already validated the inputs.
  const interpreted = readsFacts ? findInterpretedText(facts) : undefined;
  if (interpreted !== undefined) {
    throw inputsError(`${interpreted.path.join('.')} ${interpreted.expected}`);
  }
  const all = readsFacts ? { ...facts, ...inputs } : inputs;
  const encoded = Buffer.from(JSON.stringify(all)).toString('base64');
  return [
    `{%- set saltbridge_inputs = '${encoded}' | base64_decode | load_json -%}`,
    '{%- set pillar = dict(pillar, **saltbridge_inputs) -%}',
    '{%- set opts = dict(opts | default({}), **saltbridge_inputs) -%}',
    `\n${sls}`,
  ].join('');
}

/**
 * Returns the name of an input that the SLS reads in a wrong way: with a function in
 * {@link ownReader}, which cannot return inputs. Returns `undefined` if there is none. Examines
 * only the first argument of each call, up to the first colon.
 */
function findMisread(names: ReadonlySet<string>, sls: string): string | undefined {
  const call = new RegExp(`${ownReader.source}['"]?\\]?\\(\\s*['"]([^'"]*)['"]`, 'g');
  const read = new Set(Array.from(sls.matchAll(call), ([, argument = '']) => argument));
  const first = new Set(Array.from(read, (argument) => argument.split(':', 1)[0]));
  return [...names].find((name) => {
    if (read.has(name) || first.has(name)) return true;
    return name.includes(':') && [...read].some((argument) => argument.startsWith(`${name}:`));
  });
}

function inputsError(text: string): BridgeError {
  return new BridgeError('ERR_COMMAND_PARAMETERS', `group salt: ${text}`);
}
