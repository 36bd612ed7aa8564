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
 * Salt functions that cannot return inputs, because they read the minion's own configuration and
 * pillar.
 */
const ownReader = /\b(?:config\.(?:get|option)|pillar\.(?:get|item))\b/;

/** Jinja expressions and statements. Text outside of them is not evaluated. */
const jinjaCode = /\{\{[\s\S]*?\}\}|\{%[\s\S]*?%\}/g;

/**
 * Calls of `config.get` and `pillar.get` with one name in quotes, and at most a simple default.
 * Also matches other texts in quotes, which stay unchanged.
 */
const readOrText =
  /\bsalt(?:\[\s*(['"])(?:config|pillar)\.get\1\s*\]|\.(?:config|pillar)\.get)\(\s*(['"])([\w-]+)\2\s*(?:,[^(){}]*)?\)|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/g;

/**
 * Replaces simple calls of `config.get` and `pillar.get` that name an input by this input. Only
 * Jinja code is changed. SLS with `raw` blocks is returned unchanged, because Jinja code in such
 * blocks is plain text.
 */
function withInputReads(sls: string, inputs: ReadonlySet<string>): string {
  if (/\{%[-+]?\s*raw\b/.test(sls)) return sls;
  const replaced = (found: string, _outer: unknown, _inner: unknown, name?: string): string =>
    name !== undefined && inputs.has(name) ? `saltbridge_inputs['${name}']` : found;
  return sls.replaceAll(jinjaCode, (code) => code.replaceAll(readOrText, replaced));
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
  const misread = [...known].find((name) => new RegExp(`['"]${name}(?:['":])`).test(callsOf(sls)));
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

/** Returns the first arguments of all calls of functions that cannot return inputs. */
function callsOf(sls: string): string {
  const call = new RegExp(`${ownReader.source}['"]?\\]?\\(\\s*(['"][^'"]*['"])`, 'g');
  return [...sls.matchAll(call)].map(([, argument = '']) => argument).join('\n');
}

function inputsError(text: string): BridgeError {
  return new BridgeError('ERR_COMMAND_PARAMETERS', `group salt: ${text}`);
}
