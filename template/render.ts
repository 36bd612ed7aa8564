import { makeGlobals } from './filters/globals.ts';
import { renderRoot } from './jinja/execute.ts';
import { Context, type Names } from './jinja/frame.ts';
import { tplNames } from './jinja/paths.ts';
import { type Printer, Rendering, type TemplateLoader } from './jinja/rendering.ts';
import { asTemplateError, parseTemplate, type Template } from './jinja/template.ts';
import type { TemplateLimits } from './limits.ts';
import { toPython } from './python/convert.ts';
import type { Value } from './python/values.ts';
import { type SaltFunction, SaltFunctions } from './salt-functions.ts';

/** What a template is rendered with. */
export interface RenderOptions {
  /** The file's name for errors and relative imports, e.g. `web/init.sls`. */
  readonly name: string;
  /** The variables: plain data, which is converted when the template first looks at it. */
  readonly context?: Readonly<Record<string, unknown>>;
  /** Where includes, imports and extends are found; without it there are none. */
  readonly loader?: TemplateLoader;
  /** How much the rendering may take; defaults for what is left out. */
  readonly limits?: Partial<TemplateLimits>;
  /** What `salt['test.ping']` and `salt.test.ping` find. */
  readonly functions?: Readonly<Record<string, SaltFunction>>;
  /** Whether what is undefined fails when it is used; Salt's `allow_undefined` turned round. Default true. */
  readonly strict?: boolean;
  /** Salt's `jinja_trim_blocks`. Default false. */
  readonly trimBlocks?: boolean;
  /** Salt's `jinja_lstrip_blocks`. Default false. */
  readonly lstripBlocks?: boolean;
  /** The clock, for `strftime` without a date. */
  readonly now?: () => Date;
  /** From 0 to below 1, for the filter `random`. */
  readonly random?: () => number;
  /** What stands in the text for the value of `{{ … }}`. Default: `str(value)`. */
  readonly print?: Printer;
}

/**
 * Renders a template as Salt's Jinja renderer does. The source can be text, or a template that
 * {@link parseTemplate} has read before.
 * @throws TemplateError with file and line; and whatever the loader throws
 */
export function renderJinja(source: string | Template, options: RenderOptions): string {
  const { name, trimBlocks = false, lstripBlocks = false } = options;
  const template =
    typeof source === 'string' ? parseTemplate(source, { name, trimBlocks, lstripBlocks }) : source;
  const builtins = new Map<string, Value>();
  const rendering = new Rendering(template.name, {
    names: namesOf(options, builtins),
    loader: options.loader,
    limits: options.limits,
    isStrict: options.strict ?? true,
    now: options.now ?? (() => new Date()),
    random: options.random ?? Math.random,
    print: options.print,
    trimBlocks,
    lstripBlocks,
  });
  for (const [key, value] of makeGlobals(rendering.meter)) builtins.set(key, value);
  try {
    const context = new Context(rendering.globals());
    context.addBlocks(template);
    return renderRoot(rendering, template, context) + template.newline;
  } catch (error) {
    throw asTemplateError(error, { file: rendering.file, line: rendering.line });
  }
}

/** The variables, each converted once, in front of the functions that all templates have. */
function namesOf(options: RenderOptions, builtins: ReadonlyMap<string, Value>): Names {
  const { context = {}, functions, name } = options;
  const converted = new Map<string, Value>(tplNames(name));
  if (functions !== undefined) converted.set('salt', new SaltFunctions(functions));
  return {
    get: (key) => {
      const known = converted.get(key);
      if (known !== undefined || converted.has(key)) return known ?? null;
      if (!Object.hasOwn(context, key)) return builtins.get(key);
      const value = toPython(context[key]);
      converted.set(key, value);
      return value;
    },
  };
}
