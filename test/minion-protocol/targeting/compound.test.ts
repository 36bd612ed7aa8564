import test from 'ava';
import fc from 'fast-check';
import { compileTarget } from '../../../minion-protocol/index.ts';

/** An expression as a tree, which says by itself what it means. */
type Tree =
  | { readonly kind: 'id'; readonly id: string }
  | { readonly kind: 'not'; readonly of: Tree }
  | { readonly kind: 'and' | 'or'; readonly left: Tree; readonly right: Tree };

const ids = ['a', 'b', 'c'];

const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { depthSize: 'medium', withCrossShrink: true },
    fc.record({ kind: fc.constant('id' as const), id: fc.constantFrom(...ids) }),
    fc.record({ kind: fc.constant('not' as const), of: tie('tree') }),
    fc.record({
      kind: fc.constantFrom('and' as const, 'or' as const),
      left: tie('tree'),
      right: tie('tree'),
    }),
  ),
}));

function means(expression: Tree, id: string): boolean {
  switch (expression.kind) {
    case 'id':
      return expression.id === id;
    case 'not':
      return !means(expression.of, id);
    case 'and':
      return means(expression.left, id) && means(expression.right, id);
    case 'or':
      return means(expression.left, id) || means(expression.right, id);
  }
}

const strength = { or: 1, and: 2, not: 3, id: 4 } as const;

/** With parentheses only where Python needs them. */
function words(expression: Tree): string[] {
  switch (expression.kind) {
    case 'id':
      return [expression.id];
    case 'not':
      return ['not', ...enclosed(expression.of, strength.id)];
    default: {
      const { kind, left, right } = expression;
      return [...enclosed(left, strength[kind]), kind, ...enclosed(right, strength[kind])];
    }
  }
}

function enclosed(expression: Tree, least: number): string[] {
  const inner = words(expression);
  return strength[expression.kind] < least ? ['(', ...inner, ')'] : inner;
}

const nothing = { grains: undefined, pillar: undefined };

test('a compound expression means what its tree means, as text and as a list', (t) => {
  fc.assert(
    fc.property(tree, (expression) => {
      const list = words(expression);
      for (const tgt of [list, list.join(' ')]) {
        const compiled = compileTarget({ tgtType: 'compound', tgt });
        const meant = ids.filter((id) => compiled.test({ id, facts: nothing }) === 'yes');
        t.deepEqual(
          meant,
          ids.filter((id) => means(expression, id)),
          list.join(' '),
        );
      }
    }),
    { numRuns: 500 },
  );
});

test('any words are an expression or are broken, and never more than that', (t) => {
  const word = fc.constantFrom('a', 'not', 'and', 'or', '(', ')', 'G@', 'L@a', 'S@x', 'R@a', '@');
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (tgt) => {
      const compiled = compileTarget({ tgtType: 'compound', tgt });
      const verdict = compiled.test({ id: 'a', facts: nothing });
      t.true(compiled.problem === undefined || verdict === 'no');
    }),
    { numRuns: 2000 },
  );
});

test('an expression of as many words as fit into a target is read', (t) => {
  const compiled = compileTarget({ tgtType: 'compound', tgt: `${'a or '.repeat(12_000)}b` });
  t.is(compiled.test({ id: 'b', facts: nothing }), 'yes');
});
