import { renderRoot } from './jinja/execute.ts';
import { Context } from './jinja/frame.ts';
import { makeGlobals } from './jinja/globals.ts';
import { type NameLookup, Rendering, type RenderOptions, tplNames } from './jinja/rendering.ts';
import { asTemplateError, type Template } from './jinja/template.ts';
import { toPython } from './python/convert.ts';
import type { Value } from './python/values.ts';

/**
 * Renders a template like Salt's Jinja renderer.
 * @throws TemplateError with file and line; errors of the loader
 */
export function renderJinja(template: Template, options: RenderOptions = {}): string {
  const builtins = new Map<string, Value>();
  const names = namesOf(template, options.context ?? {}, builtins);
  const rendering = new Rendering(template.name, names, options);
  for (const [key, value] of makeGlobals(rendering.meter)) builtins.set(key, value);
  try {
    const context = new Context(rendering.globals());
    context.addBlocks(template);
    return renderRoot(rendering, template, context, true) + template.newline;
  } catch (error) {
    throw asTemplateError(error, { file: rendering.file, line: rendering.line });
  }
}

/**
 * Returns the variables of a template. A variable is converted when it is first used. If a built-in
 * function has the same name, the variable is used.
 */
function namesOf(
  { name }: Template,
  context: Readonly<Record<string, unknown>>,
  builtins: ReadonlyMap<string, Value>,
): NameLookup {
  const converted = new Map<string, Value>([...tplNames(name), ['tplpath', name]]);
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
