/** A template as a YAML document: reads it, removes role metadata, and adds user-data. */

import { type Document, isMap, Lexer, parseDocument, Scalar } from 'yaml';
import { BridgeError } from '#heat-bridge';
import type { TemplateResources } from './template-graph.ts';
import { type UserDataParts, userDataOf } from './template-user-data.ts';

/** Bytes that Heat takes. */
const maxTemplateBytes = 524_288;
/** Heat's oldest version in which text may hold a map as JSON. */
const oldestVersion = '2015-10-15';

export function parseTemplate(text: string): Document {
  if (Buffer.byteLength(text) > maxTemplateBytes) {
    throw formError([`Heat takes templates of at most ${maxTemplateBytes} bytes`]);
  }
  // Every plain scalar is text: what Heat's YAML makes of it is Heat's.
  const document = parseDocument(indentFlowEnds(text), { schema: 'failsafe' });
  const [error] = document.errors;
  if (error !== undefined) throw formError([error.message]);
  const version = document.get('heat_template_version');
  if (typeof version !== 'string') {
    throw formError(['heat_template_version: expected a date or a name']);
  }
  if (version < oldestVersion) {
    throw formError([`heat_template_version: expected ${oldestVersion} or later, got ${version}`]);
  }
  return document;
}

/** What the lexer gives where it ends a flow collection by the indent of a line. */
const flowErrorEnd = '\u0018';
/** Tokens of the lexer that stand for no text. */
const markers: ReadonlySet<string> = new Set(['\u0002', '\u001f', flowErrorEnd]);
const maxFlowEnds = 1_000;

/**
 * Indents lines of flow collections that PyYAML, which ignores their indent, reads: `[{` on the line of
 * a key may end by `}]` at the indent of the key.
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
  if (typeof resources !== 'object' || resources === null || Array.isArray(resources)) {
    throw formError(['resources: expected a map']);
  }
  const isMapOfMaps = Object.values(resources).every(
    (it) => typeof it === 'object' && it !== null && !Array.isArray(it),
  );
  if (!isMapOfMaps) throw formError(['resources: expected a map for each']);
  return resources as TemplateResources;
}

/** A reference in metadata would be a dependency of Heat's. */
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

/** @returns warnings */
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
      description: `User-data that enrols the machine of ${name}; saltbridge heat prepare makes it`,
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
  return hadTools ? [`${name}: user_data_format is RAW now: heat-cfntools are not set up`] : [];
}

export function formError(problems: readonly string[]): BridgeError {
  return new BridgeError('ERR_DATA_FORM', problems.join('\n'));
}
