import type { StaticEncode, TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { pathOfManyDuplicates, requiresUniqueItems } from './duplicate-items.ts';

/** A compiled check of values against a schema. */
export type SchemaCheck<Schema extends TSchema> = Pick<
  Validator<Record<never, never>, Schema>,
  'Check' | 'Errors' | 'Parse' | 'Type'
>;

/**
 * Compiles a schema when it is first used. A program uses only a few of the schemas that it loads,
 * and compiling all of them would take longer than loading them.
 */
export function compileSchema<const Schema extends TSchema>(schema: Schema): SchemaCheck<Schema> {
  let compiled: Validator<Record<never, never>, Schema> | undefined;
  const validator = (): Validator<Record<never, never>, Schema> => {
    compiled ??= Compile(schema);
    return compiled;
  };
  let isUnique: boolean | undefined;
  /**
   * Returns the path of a list with so many duplicates that TypeBox would need too long to describe
   * them. Returns `undefined` if there is no such list.
   */
  const repeatedIn = (value: unknown): string | undefined => {
    isUnique ??= requiresUniqueItems(schema);
    const path = isUnique ? pathOfManyDuplicates(value) : undefined;
    return path === undefined || validator().Check(value) ? undefined : path;
  };
  return {
    Check: (value: unknown): value is StaticEncode<Schema, Record<never, never>> =>
      validator().Check(value),
    Type: () => schema,
    Parse: (value) => {
      const repeated = repeatedIn(value);
      if (repeated !== undefined)
        throw new TypeError(`the list ${repeated} must not have duplicate items`);
      return validator().Parse(value);
    },
    Errors: (value) => {
      const instancePath = repeatedIn(value);
      if (instancePath === undefined) return validator().Errors(value);
      const message = 'must not have duplicate items';
      const params = { duplicateItems: [] };
      return [{ keyword: 'uniqueItems', schemaPath: '', instancePath, params, message }];
    },
  };
}
