// The little of Node that agent.ts needs, so that it compiles with tsc alone. With @types/node, leave
// this file and "types" in tsconfig.json out.
declare module "node:child_process" {
  function spawnSync(
    command: string,
    args: string[],
    options: { input: string; encoding: "utf8" },
  ): { status: number | null; stdout: string; stderr: string };
}
declare module "node:fs" {
  function appendFileSync(path: string, text: string): void;
  function existsSync(path: string): boolean;
  function readFileSync(path: string | number, encoding: "utf8"): string;
  function writeFileSync(path: string, text: string): void;
}
declare const __filename: string;
declare const console: { error(what: unknown): void };
declare function setTimeout(callback: (value?: unknown) => void, ms: number): unknown;
declare const process: {
  argv: string[];
  env: Record<string, string | undefined>;
  execPath: string;
  exitCode?: number;
  stdout: { write(text: string): void };
};
