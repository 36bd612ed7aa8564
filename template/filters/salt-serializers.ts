/** Salt's filters that write and read YAML and JSON [salt/utils/jinja.py, yamlencoding.py]. */

import { TemplateError } from '../errors.ts';
import { PythonException, typeError } from '../python/exceptions.ts';
import { dumpJson, loadJson } from '../python/json.ts';
import { pformat } from '../python/pprint.ts';
import { str, typeName } from '../python/repr.ts';
import { isTruthy } from '../python/sequences.ts';
import { asIndex } from '../python/subscripts.ts';
import {
  Bytes,
  Dict,
  isPyObject,
  isText,
  Markup,
  Tuple,
  textOf,
  Undefined,
  type Value,
} from '../python/values.ts';
import { dumpYaml, isCollection } from '../python/yaml.ts';
import { doubleQuoted, singleQuoted } from '../python/yaml-quoted.ts';
import { representScalar } from '../python/yaml-scalar.ts';
import { loadYaml } from '../yaml.ts';
import {
  defineFilter,
  type FilterContext,
  type FilterDefinitions,
  iterateItems,
  simpleFilter,
} from './definition.ts';

/** Converts a module or markup to text. Returns other values unchanged. */
function source(value: Value): Value {
  if (value instanceof Markup) return value.text;
  return isPyObject(value) && value.typeName === 'TemplateModule' ? str(value) : value;
}

/** Number of rendering steps that are counted for parsing one character of YAML. */
const stepsOfYaml = 5;

function readYaml(value: Value, { meter }: FilterContext): Value {
  // libyaml rejects values of Python classes that are derived from `str`.
  if (value instanceof Markup) throw typeError('a string or stream input is required');
  const text = source(value);
  if (text instanceof Undefined) throw text.error();
  if (typeof text !== 'string') {
    throw new PythonException(
      'TemplateRuntimeError',
      `Unable to load yaml from ${typeName(value)}`,
    );
  }
  meter.step(1 + text.length * stepsOfYaml);
  try {
    return decodeBytes(loadYaml(text, { name: 'yaml' }));
  } catch (cause) {
    if (!(cause instanceof TemplateError) || cause.code !== 'ERR_YAML') throw cause;
    const { line } = cause.place;
    const message = `Encountered error loading yaml: ${cause.detail}, line ${line} of it`;
    throw new PythonException('TemplateRuntimeError', message, { cause });
  }
}

/**
 * Decodes bytes in a value that was read from YAML, as Salt's filter does.
 * @throws PythonException UnicodeDecodeError for bytes that are not UTF-8
 */
function decodeBytes(value: Value): Value {
  if (value instanceof Bytes) return decodeUtf8(value);
  if (Array.isArray(value)) return value.map(decodeBytes);
  if (value instanceof Tuple) return new Tuple(value.items.map(decodeBytes));
  if (!(value instanceof Dict)) return value;
  const pairs = Array.from(value.entries());
  return new Dict(pairs.map(([key, item]) => [decodeBytes(key), decodeBytes(item)] as const));
}

function decodeUtf8({ bytes }: Bytes): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new PythonException('UnicodeDecodeError', "'utf-8' codec can't decode the bytes");
  }
}

/** Encodes all texts in lists and dicts to bytes, including keys. */
function encodeText(value: Value): Value {
  if (isText(value)) return new Bytes(Buffer.from(textOf(value)));
  if (Array.isArray(value)) return value.map(encodeText);
  if (value instanceof Tuple) return value.items.map(encodeText);
  if (!(value instanceof Dict)) return value;
  const pairs = Array.from(value.entries());
  return new Dict(
    pairs.map(([key, item]) => {
      if (key instanceof Tuple) throw typeError("unhashable type: 'list'");
      return [encodeText(key), encodeText(item)] as const;
    }),
  );
}

/** Implements Salt's `json_encode_list` and `json_decode_list`, which are the same function. */
function encodeList(value: Value, context: FilterContext): Value {
  return [...iterateItems(value, context)].map(encodeText);
}

/** Implements Salt's `json_encode_dict` and `json_decode_dict`, which are the same function. */
function encodeDict(value: Value): Value {
  if (value instanceof Dict) return encodeText(value);
  const problem = `'${typeName(value)}' object has no attribute 'items'`;
  throw new PythonException('AttributeError', problem);
}

function readJson(value: Value, { meter }: FilterContext): Value {
  const text = source(value);
  if (text instanceof Undefined) throw text.error();
  try {
    if (typeof text === 'string') return loadJson(text, meter);
  } catch (cause) {
    if (!(cause instanceof PythonException)) throw cause;
    const message = `Unable to load json: ${cause.message}`;
    throw new PythonException('TemplateRuntimeError', message, { cause });
  }
  throw new PythonException('TemplateRuntimeError', `Unable to load json from ${typeName(value)}`);
}

function jsonIndent(value: Value): number | undefined {
  return value === null ? undefined : asIndex(value);
}

function yaml(value: Value, flow: Value, { meter }: FilterContext): Markup {
  const flowStyle = flow === null ? null : isTruthy(flow);
  const text = dumpYaml(value, { flowStyle, meter }).trim();
  return new Markup(text.endsWith('\n...') ? text.slice(0, -4) : text);
}

const unsafeInHtml: Readonly<Record<string, string>> = {
  '<': '\\u003c',
  '>': '\\u003e',
  '&': '\\u0026',
  "'": '\\u0027',
};

/** Salt's serialization filters by name. */
export const saltSerialFilters: FilterDefinitions = {
  dict_to_sls_yaml_params: defineFilter(
    ['value', 'flow_style'],
    [false],
    (context, value = null, flow = false) => {
      if (value instanceof Undefined) throw value.error();
      if (!(value instanceof Dict)) {
        throw new PythonException(
          'AttributeError',
          `'${typeName(value)}' object has no attribute 'items'`,
        );
      }
      const list = Array.from(value.entries(), (entry) => new Dict([entry]));
      return yaml(list, flow, context);
    },
  ),
  json: defineFilter(
    ['value', 'sort_keys', 'indent'],
    [true, null],
    ({ meter }, value = null, sortKeys = true, indent = null) =>
      new Markup(
        dumpJson(value, {
          sortKeys: isTruthy(sortKeys),
          indent: jsonIndent(indent),
          ensureAscii: false,
          meter,
        }),
      ),
  ),
  json_decode_dict: simpleFilter(encodeDict),
  json_decode_list: simpleFilter(encodeList),
  json_encode_dict: simpleFilter(encodeDict),
  json_encode_list: simpleFilter(encodeList),
  load_json: simpleFilter(readJson),
  load_text: simpleFilter((value) => source(value)),
  load_yaml: simpleFilter(readYaml),
  pprint: simpleFilter((value, { meter }) => pformat(value, meter)),
  python: simpleFilter((value, { meter }) => new Markup(pformat(value, meter).trim())),
  tojson: defineFilter(
    ['val', 'indent', 'sort_keys', 'ensure_ascii'],
    [null, false, true],
    ({ meter }, value = null, indent = null, sortKeys = false) =>
      dumpJson(value, { sortKeys: isTruthy(sortKeys), indent: jsonIndent(indent), meter }).replace(
        /[<>&']/g,
        (character) => unsafeInHtml[character] ?? character,
      ),
  ),
  yaml: defineFilter(['value', 'flow_style'], [true], (context, value = null, flow = true) =>
    yaml(value, flow, context),
  ),
  yaml_dquote: simpleFilter((value) => doubleQuoted(str(value))),
  yaml_encode: simpleFilter((value) => {
    if (typeof value === 'string') return doubleQuoted(value);
    const scalar = representScalar(value);
    if (scalar === undefined) {
      if (!isCollection(value))
        throw new PythonException('RepresenterError', 'cannot represent an object');
      throw typeError(
        `yaml_encode() only works with YAML scalar data; failed for <class '${typeName(value)}'>`,
      );
    }
    return scalar;
  }),
  yaml_squote: simpleFilter((value) => singleQuoted(str(value))),
};
