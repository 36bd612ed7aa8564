import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import test from 'ava';
import { SharedValues } from '#edge/bundles/shared-values.ts';
import { until } from '../../helpers/deadline.ts';

test('values of the same content are derived once, and forgotten when nobody uses them', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  const values = new SharedValues<{ readonly text: string }>();
  let derived = 0;
  const of = (digest: string): { readonly text: string } =>
    values.of(digest, () => {
      derived += 1;
      return { text: digest };
    });
  const used = of('a');
  t.is(of('a'), used);
  of('b');
  t.is(derived, 2);
  await until('the unused value is forgotten', () => {
    collect();
    return values.size === 1;
  });
  t.is(of('a'), used);
  t.is(derived, 2);
});

test('nothing is shared if a value cannot be derived', (t) => {
  const values = new SharedValues<object>();
  const fail = (): never => {
    throw new RangeError('no value');
  };
  t.throws(() => values.of('a', fail), { instanceOf: RangeError });
  t.is(values.size, 0);
  t.truthy(values.of('a', () => ({})));
});
