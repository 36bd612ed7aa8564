/** Source files of pillar and SLS, parsed once. */

import { parseTemplate, type Template } from '#template';

/** Path and content of a file. */
export interface SourceText {
  /** Path of the file below its root directory. */
  readonly path: string;
  /** Digest of the content. */
  readonly digest: string;
  readonly text: string;
}

/** A file with a template, which is parsed when it is first needed. */
export interface SourceFile extends SourceText {
  /**
   * Parses the template at the first call.
   * @throws TemplateError
   */
  template(): Template;
}

/** Whitespace options of templates. */
export interface TemplateWhitespace {
  /** Whether `jinja_trim_blocks` is set. */
  readonly trimBlocks: boolean;
  /** Whether `jinja_lstrip_blocks` is set. */
  readonly lstripBlocks: boolean;
}

/**
 * Creates a source file.
 * @param onParse - called before the template is parsed
 */
export function toSourceFile(
  { path, digest, text }: SourceText,
  whitespace: TemplateWhitespace,
  onParse: () => void = () => {},
): SourceFile {
  let template: Template | undefined;
  return {
    path,
    digest,
    text,
    template: () => {
      if (template !== undefined) return template;
      onParse();
      template = parseTemplate(text, { ...whitespace, name: path });
      return template;
    },
  };
}

/**
 * Returns the variables from which the template of an SLS can read its own path.
 * @param file - path below the root, for example `web/init.sls`
 */
export function slsNames(file: string): Readonly<Record<string, string>> {
  const directory = file.includes('/') ? file.slice(0, file.lastIndexOf('/')) : '';
  return {
    slspath: directory,
    slsdotpath: directory.replaceAll('/', '.'),
    slscolonpath: directory.replaceAll('/', ':'),
    sls_path: directory.replaceAll('/', '_'),
  };
}
