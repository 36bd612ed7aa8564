/**
 * Detects syntax that YAML 1.2 permits but libyaml, which Salt uses, rejects. Examples are colons
 * at the edge of a value inside `[…]` and `{…}` (`[::1]`, `[a:]`, `[: 1]`), anchors that are not
 * words (`&& ls`), and escapes of surrogates (`"\ud83d\ude00"`).
 */

import { type Document, isCollection, isScalar, type Node, Scalar, visit } from 'yaml';

/**
 * Whether libyaml would reject this document.
 * @param text - source of the document
 */
export function isBeyondLibyaml(document: Document.Parsed, text: string): boolean {
  let isRefused = false;
  visit(document, {
    Node(place, node, path) {
      isRefused ||= hasRefusedAnchor(node);
      if (isScalar(node) && node.type === Scalar.QUOTE_DOUBLE) {
        isRefused ||= halfCharacter.test(sourceOf(node, text));
      }
      if (isScalar(node) && node.type === Scalar.PLAIN && path.length > 1) {
        isRefused ||= hasRefusedColon(node, place === 'key', text);
        // libyaml reads the question mark as the mark of a key, also without a blank after it.
        isRefused ||= node.source?.startsWith('?') === true && path.some(isFlowCollection);
      }
      return isRefused ? visit.BREAK : undefined;
    },
  });
  return isRefused;
}

function isFlowCollection(node: unknown): boolean {
  return isCollection(node) && node.flow === true;
}

/**
 * Matches the escape of a surrogate, for example `\uD83D`. An even number of backslashes may
 * precede the escape, because these backslashes escape each other.
 */
const halfCharacter = /(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]/;

function sourceOf({ range }: Scalar, text: string): string {
  return range === null || range === undefined ? '' : text.slice(range[0], range[1]);
}

function hasRefusedAnchor(node: Node): boolean {
  return 'anchor' in node && node.anchor !== undefined && !/^[\w-]+$/.test(node.anchor);
}

function hasRefusedColon(scalar: Scalar, isKey: boolean, text: string): boolean {
  const source = scalar.source ?? '';
  if (source.startsWith(':')) return true;
  return isKey && (source === '' || endsBeforeIndicator(scalar, text));
}

/**
 * Whether the colon after a key is directly followed by an indicator, as in `{a:}` and `[a:, b]`.
 */
function endsBeforeIndicator(key: Scalar, text: string): boolean {
  const end = key.range?.[1];
  return end !== undefined && /^:[,[\]{}]/.test(text.slice(end, end + 2));
}
