/**
 * Parses a Heat template as a YAML document, removes the metadata of roles from it, and adds
 * user-data.
 */

import { type Document, isMap, Lexer, parseDocument, Scalar } from 'yaml';
import { BridgeError, isPlainMap } from '#heat-bridge';
import { correctLastBlock } from '#template/python/yaml-nodes.ts';
import type { TemplateResources } from './template-graph.ts';
import { type UserDataParts, userDataOf } from './template-user-data.ts';

/** Maximum size of a template in Heat, in bytes. */
const maxTemplateBytes = 524_288;
/** Oldest version of Heat templates in which a string may contain a map as JSON. */
const oldestVersion = '2015-10-15';

export function parseTemplate(text: string): Document {
  if (Buffer.byteLength(text) > maxTemplateBytes) {
    throw formError([`the template exceeds Heat's limit of ${maxTemplateBytes} bytes`]);
  }
  // Parse every plain scalar as a string, because only Heat's own YAML parser may determine its
  // type.
  const indented = indentFlowEnds(text);
  const document = parseDocument(indented, { schema: 'failsafe' });
  const [error] = document.errors;
  if (error !== undefined) throw formError([error.message]);
  correctLastBlock(document, indented);
  const version = document.get('heat_template_version');
  if (typeof version !== 'string') {
    throw formError(['heat_template_version: must be a date or a name']);
  }
  if (version < oldestVersion) {
    throw formError([`heat_template_version: must be ${oldestVersion} or later, not ${version}`]);
  }
  return document;
}

/**
 * Token that the lexer inserts at the end of a flow collection if the next line is not indented
 * enough.
 */
const flowErrorEnd = '\u0018';
/** Tokens of the lexer that have no text in the source. */
const markers: ReadonlySet<string> = new Set(['\u0002', '\u001f', flowErrorEnd]);
const maxFlowEnds = 1_000;

/**
 * Indents lines of flow collections (`[…]`, `{…}`) that are not indented enough for the YAML
 * parser. PyYAML, and therefore Heat, ignores this indentation. For example, `[{` on the line of a
 * key may end with `}]` at the indentation of the key.
 */
function indentFlowEnds(text: string): string {
  let indented = text;
  for (let count = 0; count < maxFlowEnds; count += 1) {
    const offset = flowErrorOffset(indented);
    if (offset === undefined || offset >= indented.length) return indented;
    const line = indented.lastIndexOf('\n', offset) + 1;
    const blanks = ' '.repeat(2 + (/^ */.exec(indented.slice(line))?.[0].length ?? 0));
    indented = `${indented.slice(0, line)}${blanks}${indented.slice(line)}`;
  }
  return indented;
}

function flowErrorOffset(text: string): number | undefined {
  let offset = 0;
  for (const token of new Lexer().lex(text)) {
    if (token === flowErrorEnd) return offset;
    if (!markers.has(token)) offset += token.length;
  }
  return undefined;
}

export function resourcesOf(text: string): TemplateResources {
  const { resources }: { readonly resources?: unknown } = parseDocument(indentFlowEnds(text)).toJS({
    maxAliasCount: 100,
  });
  if (!isPlainMap(resources)) throw formError(['resources: must be a map']);
  const isMapOfMaps = Object.values(resources).every(isPlainMap);
  if (!isMapOfMaps) throw formError(['resources: each must be a map']);
  return resources as TemplateResources;
}

/** Removes the role metadata. Otherwise Heat would treat a reference in it as a dependency. */
export function removeMetadata(document: Document, name: string): void {
  const place = ['resources', name, 'metadata'];
  document.deleteIn([...place, 'saltbridge']);
  const left = document.getIn(place);
  if (isMap(left) && left.items.length === 0) document.deleteIn(place);
}

function plainScalar(text: string): Scalar<string> {
  const scalar = new Scalar(text);
  scalar.type = Scalar.PLAIN;
  return scalar;
}

export function parameterOf(resource: string): string {
  return `saltbridge_user_data_${resource}`;
}

/**
 * Adds a parameter for the user-data that enrols a machine, and makes the resource of the machine
 * use it. User-data that the resource already has is preserved.
 * @returns warnings for the author of the template
 */
export function addUserData(
  document: Document,
  { name, ...more }: Omit<UserDataParts, 'enrolment' | 'existing'> & { readonly name: string },
): readonly string[] {
  const properties = ['resources', name, 'properties'];
  if (!document.hasIn(properties)) document.setIn(properties, document.createNode({}));
  const existing = document.getIn([...properties, 'user_data'], true);
  const format = document.getIn([...properties, 'user_data_format']);
  const parameter = parameterOf(name);
  document.setIn(
    ['parameters', parameter],
    document.createNode({
      type: 'string',
      hidden: plainScalar('true'),
      description: `User-data that enrols the machine of ${name}; created by saltbridge heat prepare`,
    }),
  );
  const made = userDataOf({ ...more, existing, enrolment: { get_param: parameter } });
  if (made.resource !== undefined) {
    const helper = `${name}_saltbridge_user_data`;
    document.setIn(['resources', helper], document.createNode(made.resource));
    document.setIn([...properties, 'user_data'], document.createNode({ get_resource: helper }));
  } else document.setIn([...properties, 'user_data'], document.createNode(made.text));
  if (format === 'RAW' || format === 'SOFTWARE_CONFIG') return [];
  document.setIn([...properties, 'user_data_format'], 'RAW');
  const hadTools = existing !== undefined;
  return hadTools
    ? [`${name}: user_data_format changes to RAW, so heat-cfntools are not set up`]
    : [];
}

export function formError(problems: readonly string[]): BridgeError {
  return new BridgeError('ERR_DATA_FORM', problems.join('\n'));
}
